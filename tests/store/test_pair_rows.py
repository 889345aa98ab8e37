"""Preference data in the forms that the hub's data sets have."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from podium.core.errors import PodiumError
from podium.store.pair_rows import PairRow, read_pairs


def said(*texts: str, first: str = "user") -> list[dict[str, str]]:
    roles = ["user", "assistant"] if first == "user" else ["assistant", "user"]
    return [{"role": roles[i % 2], "content": text} for i, text in enumerate(texts)]


def read(tmp_path: Path, *rows: dict[str, Any], **settings: Any) -> list[PairRow]:
    file = tmp_path / "pairs.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return read_pairs(str(file), **settings)[0]


@pytest.mark.parametrize(
    "row",
    [
        {"prompt": "2 + 2?", "chosen": "4", "rejected": "5"},
        {"prompt": "2 + 2?", "chosen": said("2 + 2?", "4"), "rejected": said("2 + 2?", "5")},
        {"prompt": said("2 + 2?"), "chosen": said("4", first="assistant"), "rejected": said("5", first="assistant")},
        {"prompt": said("2 + 2?"), "chosen": "4", "rejected": "5"},
        {"prompt": "2 + 2?", "chosen": said("4", first="assistant"), "rejected": said("5", first="assistant")},
        {"chosen": said("2 + 2?", "4"), "rejected": said("2 + 2?", "5")},
    ],
)
def test_all_forms_of_a_question_with_two_answers(tmp_path: Path, row: dict[str, Any]) -> None:
    (pair,) = read(tmp_path, row)
    assert (pair.asked, pair.replies, pair.chosen, pair.rejected) == (("2 + 2?",), (), "4", "5")


def test_texts_without_a_prompt_share_it(tmp_path: Path) -> None:
    dialogue = "\n\nHuman: a?\n\nAssistant: b\n\nHuman: c?\n\nAssistant:"
    marked, plain = read(
        tmp_path,
        {"chosen": f"{dialogue} yes", "rejected": f"{dialogue} yesterday"},
        {"chosen": "the sky is blue", "rejected": "the sky is black"},
    )
    assert (marked.asked, marked.chosen, marked.rejected) == ((dialogue,), " yes", " yesterday")
    assert (plain.asked, plain.chosen, plain.rejected) == (("the sky is ",), "blue", "black")


def test_a_conversation_keeps_its_turns_and_a_system_message_stands_first(tmp_path: Path) -> None:
    talk = [{"role": "system", "content": "Be brief."}, *said("a", "b", "c")]
    (pair,) = read(tmp_path, {"chosen": [*talk, *said("d", first="assistant")], "rejected": [
        *talk, *said("e", first="assistant")]})  # fmt: skip
    assert (pair.asked, pair.replies, pair.chosen, pair.rejected) == (("Be brief.\n\na", "c"), ("b",), "d", "e")


def test_parquet_is_read_like_json_lines(tmp_path: Path) -> None:
    rows = [{"prompt": "a", "chosen": said("a", "b"), "rejected": said("a", "c")}]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "pairs.parquet")
    ((pair,), left_out) = read_pairs(str(tmp_path / "pairs.parquet"))
    assert (pair.asked, pair.chosen, pair.rejected, left_out) == (("a",), "b", "c", 0)
    assert pair.where.endswith("row 1")


def test_judged_answers_without_a_pair(tmp_path: Path) -> None:
    good, bad = read(
        tmp_path,
        {"prompt": "a", "completion": "b", "label": True},
        {"prompt": said("a"), "completion": said("c", first="assistant"), "label": 0},
    )
    assert (good.chosen, good.rejected, bad.chosen, bad.rejected) == ("b", None, None, "c")


def test_soft_labels_are_read_where_a_field_is_named(tmp_path: Path) -> None:
    row = {"prompt": "a", "chosen": "b", "rejected": "c", "sure": 0.75}
    assert read(tmp_path, row)[0].label == 1.0
    assert read(tmp_path, row, label_field="sure")[0].label == 0.75


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"prompt": "a", "chosen": "b", "rejected": "b"}, "line 1: the chosen and the rejected answer are the same"),
        ({"prompt": "a", "chosen": " ", "rejected": "b"}, "line 1: the chosen answer is empty"),
        ({"prompt": "a", "chosen": "b", "rejected": ""}, "line 1: the rejected answer is empty"),
        (
            {"prompt": "a", "chosen": "b"},
            "line 1: the row has the fields prompt, chosen; needed are",
        ),
        ({"chosen": "b", "rejected": "c"}, "there is no prompt, and chosen and rejected do not begin alike"),
        ({"prompt": "", "chosen": "b", "rejected": "c"}, "the prompt is ''; it must be a text"),
        ({"prompt": "a", "chosen": [], "rejected": "c"}, "chosen must be a text or a list of messages"),
        ({"prompt": "a", "chosen": [{"role": "user"}], "rejected": "c"}, "each with a role and a content"),
        ({"chosen": said("a", "b"), "rejected": said("x", "c")}, "differ before their last message"),
        ({"chosen": said("a", "b", "c"), "rejected": said("a", "b", "d")}, "end with the assistant's"),
        ({"prompt": "a", "chosen": "b", "rejected": "c", "sure": 1.5}, "sure is 1.5; it must be the probability"),
        ({"prompt": "a", "chosen": "b", "rejected": "c", "sure": -0.1}, "sure is -0.1; it must be the probability"),
        ({"prompt": "a", "chosen": "b", "rejected": "c", "sure": True}, "sure is True; it must be the probability"),
        ({"prompt": "a", "chosen": "b", "rejected": "c"}, "sure is None; it must be the probability"),
        ({"prompt": "a", "completion": "b", "label": 2}, "line 1: label is 2; it must be true for a good answer"),
        ({"prompt": "a", "completion": "b", "label": 0.7}, "label is 0.7; it must be true for a good answer"),
        ({"prompt": "a", "completion": "b", "label": "good"}, "label is 'good'; it must be true for a good answer"),
        ({"prompt": "a", "completion": "b", "label": None}, "label is None; it must be true for a good answer"),
    ],
)
def test_a_bad_row_gets_one_sentence(tmp_path: Path, row: dict[str, Any], message: str) -> None:
    with pytest.raises(PodiumError) as refusal:
        read(tmp_path, row, label_field="sure" if "sure" in message else "")
    assert message in str(refusal.value)


def test_useless_rows_can_be_left_out(tmp_path: Path) -> None:
    file = tmp_path / "pairs.jsonl"
    rows = [{"prompt": "a", "chosen": "b", "rejected": other} for other in ("b", "c", "")]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    kept, left_out = read_pairs(str(file), skip=True)
    assert ([row.rejected for row in kept], left_out) == (["c"], 2)
    file.write_text(json.dumps(rows[0]) + "\n")
    with pytest.raises(PodiumError, match="has no pair of two different answers"):
        read_pairs(str(file), skip=True)


def test_a_missing_file_is_named() -> None:
    for file in ("nowhere.jsonl", "nowhere.parquet"):
        with pytest.raises(PodiumError, match="There is no file 'nowhere"):
            read_pairs(file)


def test_a_label_that_is_no_number_in_parquet_is_refused(tmp_path: Path) -> None:
    pq.write_table(
        pa.Table.from_pylist([{"prompt": "a", "chosen": "b", "rejected": "c", "sure": float("nan")}]),
        tmp_path / "pairs.parquet",
    )
    with pytest.raises(PodiumError, match="row 1: sure is nan; it must be the probability, from 0 to 1"):
        read_pairs(str(tmp_path / "pairs.parquet"), label_field="sure")
