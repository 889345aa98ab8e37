"""Data in the formats that people have, with fields that are found by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from podium import worlds
from podium.cli.app import main
from podium.core.errors import PodiumError
from podium.policy import load
from podium.protocols.pieces import Dialogue, joined
from podium.worlds import Dataset
from podium.worlds.wire import from_wire, to_wire

ROWS = [{"question": f"What is {i} + 1?", "answer": str(i + 1)} for i in range(30)]


def write_lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_arrow(path: Path, rows: list[dict[str, Any]]) -> None:
    """As `save_to_disk` of Hugging Face's datasets writes it."""
    path.mkdir(parents=True)
    table = pa.Table.from_pylist(rows)
    with pa.OSFile(str(path / "data-00000-of-00001.arrow"), "wb") as file, pa.ipc.new_stream(file, table.schema) as out:
        out.write_table(table)
    (path / "state.json").write_text(json.dumps({"_data_files": [{"filename": "data-00000-of-00001.arrow"}]}))


def get(source: Path, **settings: Any) -> Dataset:
    world = worlds.get(f"data:{source}", grader="exact", **settings)
    assert isinstance(world, Dataset)
    return world


@pytest.mark.parametrize("kind", ["jsonl", "json", "csv", "tsv", "parquet", "saved"])
def test_every_format_gives_the_same_tasks(tmp_path: Path, kind: str) -> None:
    source = tmp_path / f"data.{kind}"
    if kind == "jsonl":
        write_lines(source, ROWS)
    elif kind == "json":
        source.write_text(json.dumps(ROWS, indent=1))
    elif kind in ("csv", "tsv"):
        mark = "," if kind == "csv" else "\t"
        source.write_text("\n".join([mark.join(ROWS[0]), *(f'"{r["question"]}"{mark}{r["answer"]}' for r in ROWS)]))
    elif kind == "parquet":
        pq.write_table(pa.Table.from_pylist(ROWS), source)
    else:
        write_arrow(source, ROWS)
    world = get(source)
    prompts = {world.task(i, split).prompt for split in ("train", "test") for i in range(world.size(split))}
    assert {prompt.split("\n")[0] for prompt in prompts} == {row["question"] for row in ROWS}
    assert 0 < world.size("test") < 15
    task = world.task(0)
    assert world.grade(task, f"answer: {task.data['answer']}").reward == 1
    assert "prompt from 'question', answer from 'answer'; there is no test split" in world.remarks()[0]


def test_a_test_split_of_its_own_is_held_out(tmp_path: Path) -> None:
    (tmp_path / "saved").mkdir()
    (tmp_path / "saved" / "dataset_dict.json").write_text(json.dumps({"splits": ["train", "validation"]}))
    write_arrow(tmp_path / "saved" / "train", ROWS[:20])
    write_arrow(tmp_path / "saved" / "validation", ROWS[20:])
    (tmp_path / "hub" / "data").mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(ROWS[:20]), tmp_path / "hub" / "data" / "train-00000-of-00001.parquet")
    pq.write_table(pa.Table.from_pylist(ROWS[20:]), tmp_path / "hub" / "data" / "test-00000-of-00001.parquet")
    for folder in ("saved", "hub"):
        world = get(tmp_path / folder)
        assert (world.size("train"), world.size("test")) == (20, 10)
        assert "its own test split of 10 rows is held out" in world.remarks()[0]


def test_a_single_prompt_is_held_out_of_few(tmp_path: Path) -> None:
    write_lines(tmp_path / "data.jsonl", ROWS[:3])
    world = get(tmp_path / "data.jsonl", held_out=0.01)
    assert (world.size("train"), world.size("test")) == (2, 1)


def test_chats_keep_their_roles(tmp_path: Path) -> None:
    chat = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "2 + 2?"}]
    truth = {"reward_model": {"style": "rule", "ground_truth": "4"}, "data_source": "sums"}
    write_lines(tmp_path / "verl.jsonl", [{"prompt": chat, **truth}] * 2)
    world = get(tmp_path / "verl.jsonl", held_out=0)
    task = world.task(0)
    assert isinstance(task.prompt, Dialogue)
    assert task.prompt.messages == (("system", "Be brief."), ("user", "2 + 2?"))
    assert (task.domain, task.data["answer"]) == ("sums", "4")
    policy = load("podium/tiny")
    asked = policy.encode([{"role": "user", "content": task.prompt}])
    assert asked == policy.encode(chat)
    assert (
        policy.encode([{"role": "user", "content": task.prompt + "\nhint: it is even"}])[: len(asked) - 2] == asked[:-2]
    )
    assert from_wire(to_wire(task.prompt)) == task.prompt


def test_a_system_prompt_of_the_data_goes_before_one_of_the_settings(tmp_path: Path) -> None:
    rows = [{"question": "2 + 2?", "answer": "4"}, {"question": "3 + 3?", "answer": "6", "system": "Own."}]
    write_lines(tmp_path / "data.jsonl", rows[::-1])
    world = get(tmp_path / "data.jsonl", held_out=0, system="Everybody's.")
    assert [world.task(i).prompt.messages[0][1] for i in range(2)] == ["Own.", "Everybody's."]  # type: ignore[attr-defined]


def test_a_conversation_that_ends_with_its_answer(tmp_path: Path) -> None:
    talk = [{"from": "human", "value": "2 + 2?"}, {"from": "gpt", "value": "That is 4.\n#### 4"}]
    write_lines(tmp_path / "data.jsonl", [{"conversations": talk}])
    world = get(tmp_path / "data.jsonl", held_out=0)
    assert world.task(0).prompt.messages == (("user", "2 + 2?"),)  # type: ignore[attr-defined]
    assert world.solve(world.task(0)) == "That is 4.\nanswer: 4"


def test_choices_are_shown_and_graded_by_letter_or_text(tmp_path: Path) -> None:
    rows = [{"question": "Capital of France?", "choices": ["London", "Paris"], "answer": 1}]
    write_lines(tmp_path / "data.jsonl", rows)
    world = get(tmp_path / "data.jsonl", held_out=0)
    task = world.task(0)
    assert "A) London\nB) Paris" in task.prompt
    assert [world.grade(task, text).reward for text in ("answer: B", "answer: Paris", "answer: A")] == [1, 1, 0]


def test_what_is_added_to_a_dialogue_joins_its_last_message() -> None:
    prompt = Dialogue(("system", "s"), ("user", "q"))
    assert joined("\n", ("above", prompt, "below")) == Dialogue(("system", "s"), ("user", "above\nq\nbelow"))
    assert "x: " + prompt == Dialogue(("system", "s"), ("user", "x: q"))
    assert prompt != "[system]\ns\n\n[user]\nq"


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"q": "a", "a": "b"}], "no field looks like a prompt (it has q, a). Name it: --prompt-field"),
        ([{"question": "a"}], "there is no answer to grade by (it has question)"),
        ([*ROWS[:1], {"question": "", "answer": "2"}], "line 2: the prompt is empty"),
        ([*ROWS[:1], {"question": "x", "answer": None}], "line 2: there is no answer to grade by"),
        ([{"messages": ["hi"], "answer": "1"}], "must be messages with a role and a content"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, rows: list[dict[str, Any]], message: str) -> None:
    write_lines(tmp_path / "data.jsonl", rows)
    with pytest.raises(PodiumError, match=message.replace("(", r"\(").replace(")", r"\)")):
        get(tmp_path / "data.jsonl")


def test_a_csv_names_the_line_that_is_too_short(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text('question,answer\n"two\nlines",1\nonly one\n')
    with pytest.raises(PodiumError, match=r"data.csv, line 4: it has 1 fields, the header 2"):
        get(tmp_path / "data.csv")


def test_data_check_names_every_row_that_cannot_be_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [json.dumps(row) for row in (ROWS[0], ROWS[0], {"question": "x", "answer": None})]
    (tmp_path / "data.jsonl").write_text("\n".join([*lines, "not json", json.dumps({**ROWS[1], "answer": "z" * 400})]))
    assert main(["data", "check", str(tmp_path / "data.jsonl")]) == 2
    out, error = capsys.readouterr()
    for fact in ("line 4: not JSON", "line 3: there is no answer", "2 times: line 1, line 2", "has 400 characters"):
        assert fact in out
    assert "3 rows that cannot be used" in error
    write_lines(tmp_path / "fine.jsonl", ROWS)
    assert main(["data", "check", str(tmp_path / "fine.jsonl"), "--model", "podium/tiny"]) == 0
    out = capsys.readouterr().out
    assert "<|user|>What is 0 + 1?" in out
    assert "tokens of podium/tiny" in out
