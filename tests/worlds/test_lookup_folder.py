"""A person's own documents and questions, searched by bm25s."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from podium import methods, worlds
from podium.core.errors import PodiumError
from podium.core.serial import decode, encode
from podium.protocols.answer_text import bare_answer
from podium.sessions.train import configure, train
from podium.worlds import LookupFolder
from podium.worlds.documents import passages_of, read_passages

needs_bm25 = pytest.mark.skipif(importlib.util.find_spec("bm25s") is None, reason="needs the extra `search`")

RIVERS = {
    "rhine.txt": "The Rhine rises in the Swiss Alps. It flows through Basel and Cologne.",
    "danube.md": "# Danube\n\nThe Danube rises in the Black Forest. It flows through Vienna and Budapest.",
    "more/others.jsonl": [
        {"id": "thames", "title": "Thames", "text": "The Thames flows through London."},
        {"id": "seine", "title": "Seine", "text": "The Seine flows through Paris."},
    ],
    "questions.jsonl": [
        {"question": "Which river flows through Vienna?", "answer": "Danube"},
        {"question": "Where does the Rhine rise?", "answers": ["the Swiss Alps", "Switzerland"]},
        {"question": "Which river flows through Paris?", "answer": ["Seine"], "domain": "cities"},
        {"question": "Which city does the Thames flow through?", "golden_answers": ["London"]},
    ],
}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "podium" / "bm25"


def write(path: Path, files: Mapping[str, Any]) -> Path:
    folder = path / "rivers"
    for name, content in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            file.write_bytes(content)
        else:
            file.write_text(content if isinstance(content, str) else "\n".join(map(json.dumps, content)))
    return folder


def opened(path: Path, files: Mapping[str, Any] | None = None, **settings: Any) -> LookupFolder:
    world = worlds.get(f"lookup:{write(path, RIVERS if files is None else files)}", **settings)
    assert isinstance(world, LookupFolder)
    return world


def about(world: LookupFolder, word: str) -> worlds.Task:
    tasks = [world.task(i, split) for split in ("train", "test") for i in range(world.size(split))]
    return next(task for task in tasks if word in task.prompt)


# -- episodes ---------------------------------------------------------------------------------------------------------


@needs_bm25
def test_a_search_shows_the_best_passages_and_an_answer_is_compared_without_case_and_articles(tmp_path: Path) -> None:
    world = opened(tmp_path, results=1)
    episode = world.reset(about(world, "Rhine"))
    found = episode.act("I should look this up.\nsearch: Where does the Rhine rise?")
    assert found.observation == "[4] rhine: The Rhine rises in the Swiss Alps. It flows through Basel and Cologne."
    assert (found.done, found.info["searched"], found.info["useful"], found.info["valid"]) == (False, True, True, True)
    for answer, right in {"Swiss alps!": True, "SWITZERLAND.": True, "Alps": False, "": False}.items():
        last = episode.copy().act(f"answer: {answer}")
        assert (last.done, last.reward, last.info["correct"]) == (True, float(right), right)
    assert episode.act("answer: switzerland").info["answer"] == "swiss alps"  # equal for all that is accepted


@needs_bm25
def test_a_search_is_useful_if_it_shows_an_answer(tmp_path: Path) -> None:
    world = opened(tmp_path, results=1, turn_rewards=1.0)
    episode = world.reset(about(world, "Vienna"))
    assert episode.act("search: thames").info["useful"] is False
    assert episode.act("search: 4").observation == "nothing found"  # the number of a passage is not part of it
    useful = episode.act("search: budapest")
    assert (useful.info["useful"], useful.info["progress"]) == (True, 0.5)
    assert episode.act("Danube").info["valid"] is False
    assert episode.act("answer: the danube").info["progress"] == 0.5


@needs_bm25
def test_results_are_cut_to_the_room_of_an_episode(tmp_path: Path) -> None:
    world = opened(tmp_path, results=2, room=80)
    episode = world.reset(about(world, "Paris"))
    shown = episode.act("search: seine flows").observation
    assert shown.splitlines()[0] == "[3] Seine: The Seine flows through Paris."
    assert sum(map(len, shown.splitlines())) == 80
    assert shown.endswith("…")
    after = episode.act("search: seine")
    assert after.observation == "no room for more results: write answer:"
    assert not after.info["useful"]
    assert episode.act("answer: Seine").reward == 1


@needs_bm25
def test_the_world_is_sound(tmp_path: Path) -> None:
    world = opened(tmp_path)
    assert worlds.check_world(world) == []
    assert decode(encode(world)) == world
    task = about(world, "Paris")
    assert task.domain == "cities"
    assert world.demonstrate(task) == ("search: Which river flows through Paris?", "answer: Seine")
    assert world.attempt(task, right=0.0)[-1] == "answer: unknown"
    assert {t.key for t in (world.task(0), world.task(0, "test"))} == {"lookup-rivers/train/0", "lookup-rivers/test/0"}


@needs_bm25
def test_questions_of_the_domain_known_need_no_evidence(tmp_path: Path) -> None:
    questions: Any = RIVERS["questions.jsonl"]
    rows = [{**row, "domain": "known"} if n == 0 else row for n, row in enumerate(questions)]
    world = opened(tmp_path, {**RIVERS, "questions.jsonl": rows})
    for name, evidence in (("Vienna", ()), ("Paris", (1,))):
        episode = world.reset(about(world, name))
        assert episode.act("answer: nobody knows").info["evidence"] == evidence
    assert methods.get("ikea").check(world.provides) == []


@needs_bm25
def test_a_method_trains_there_and_is_told_of_the_held_out_questions(tmp_path: Path) -> None:
    folder = write(tmp_path, RIVERS)
    told: list[str] = []
    settings = {"instructions": False, "passage": 60, "room": 200}
    config = configure(
        methods.get("grpo"), world=f"lookup:{folder}", world_settings=settings, iterations=1, tasks=2, eval_tasks=1
    )
    train(config, out=tmp_path / "run", tell=told.append)
    assert any("of 4 are held out, chosen by a hash of the question" in line for line in told)


# -- the splits -------------------------------------------------------------------------------------------------------


def numbered(count: int, **fields: str) -> list[dict[str, str]]:
    return [{"question": f"What is {i}?", "answer": str(i), **fields} for i in range(count)]


@needs_bm25
@pytest.mark.parametrize(("count", "held_out", "test"), [(2, 0.1, {1}), (400, 0.25, set(range(70, 131))), (9, 0, {0})])
def test_without_a_split_some_questions_are_held_out(
    tmp_path: Path, count: int, held_out: float, test: set[int]
) -> None:
    world = opened(tmp_path, {**RIVERS, "questions.jsonl": numbered(count)}, held_out=held_out)
    assert world.size("test") in test
    assert world.size("train") == count - world.size("test")
    assert world.remarks()[0].endswith(
        f"{world.size('test')} of {count} are held out, chosen by a hash of the question."
    )


@needs_bm25
def test_a_split_of_the_file_is_kept(tmp_path: Path) -> None:
    rows = [*numbered(3, split="train"), {"question": "Who?", "answer": "I", "split": "test"}]
    world = opened(tmp_path, {**RIVERS, "questions.jsonl": rows})
    assert (world.size("train"), world.size("test"), world.remarks()) == (3, 1, ())
    assert world.task(0, "test").data["line"] == 4
    only = opened(tmp_path, {**RIVERS, "questions.jsonl": numbered(1, split="test")})
    with pytest.raises(PodiumError, match=r"questions.jsonl leaves no train questions: add some"):
        only.task(0)


# -- the index --------------------------------------------------------------------------------------------------------


@needs_bm25
def test_the_index_is_kept_and_made_again_when_a_file_changes(tmp_path: Path, cache: Path) -> None:
    assert opened(tmp_path).engine.made
    again = opened(tmp_path)
    assert not again.engine.made
    assert again.engine.best("Vienna", 3) == [0]
    changed = opened(tmp_path, {**RIVERS, "rhine.txt": "The Rhine is long."})
    assert changed.engine.made
    assert changed.engine.best("Cologne", 3) == []
    assert len(list(cache.iterdir())) == 1  # the one of the old texts is gone
    assert opened(tmp_path, passage=40).engine.made
    assert len(list(cache.iterdir())) == 2


@needs_bm25
def test_a_damaged_index_is_made_again(tmp_path: Path, cache: Path) -> None:
    opened(tmp_path)
    [place] = cache.iterdir()
    next(place.glob("*data*")).write_bytes(b"half")
    assert opened(tmp_path).engine.made
    assert not opened(tmp_path).engine.made


@needs_bm25
def test_without_a_cache_the_index_is_made_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert opened(tmp_path).engine.best("Vienna", 1) == [0]
    assert opened(tmp_path).engine.made


@needs_bm25
def test_of_equal_passages_the_first_comes_first(tmp_path: Path) -> None:
    rows = [{"text": "a red kite"} for _ in range(9)] + [{"text": "a kite, a kite"}]
    world = opened(tmp_path, {"kites.jsonl": rows, "questions.jsonl": numbered(2)}, results=4)
    assert world.engine.best("kite", 4) == [9, 0, 1, 2]
    assert world.engine.best("the of", 4) == []
    assert world.engine.best("", 4) == []


@needs_bm25
def test_stop_words_are_of_a_language_or_none(tmp_path: Path) -> None:
    assert opened(tmp_path, stopwords="none").engine.best("the", 9) == [3, 0, 1, 2]
    with pytest.raises(PodiumError, match="bm25s has no stop words for 'klingon': take a language that it has"):
        opened(tmp_path, stopwords="klingon")


# -- reading ----------------------------------------------------------------------------------------------------------


def test_passages_end_with_a_sentence_or_a_word() -> None:
    assert passages_of("One two. Three four!\n\nFive six seven.", 20) == ["One two. Three four!", "Five six seven."]
    assert passages_of("one two three", 7) == ["one two", "three"]
    assert passages_of("x" * 25, 10) == ["x" * 10, "x" * 10, "x" * 5]
    assert passages_of(" \n ", 10) == []


def test_documents_have_titles(tmp_path: Path) -> None:
    folder = write(tmp_path, {**RIVERS, "two_words.txt": "Text.", ".hidden.txt": "no", "picture.png": "no"})
    titles = [passage.title for passage in read_passages(folder, 400, folder / "questions.jsonl")]
    assert titles == ["Danube", "Thames", "Seine", "rhine", "two words"]


def test_answers_are_compared_as_squad_does() -> None:
    assert bare_answer("  The  U.S.A., an Alp! ") == "usa alp"


THAMES = {"id": "thames", "text": "more"}
MISTAKES: list[tuple[Mapping[str, Any], str]] = [
    ({"questions.jsonl": numbered(2)}, r"rivers has no documents: put \.txt, \.md or \.jsonl files into it"),
    ({"rhine.txt": "", "questions.jsonl": numbered(2)}, r"rhine\.txt: the document has no words\. Fill it"),
    ({**RIVERS, "rhine.txt": b"one\ntwo \xff"}, r"rhine\.txt, line 2: not UTF-8 text \(invalid start byte at byte 8\)"),
    ({**RIVERS, "rhine.txt": "one\n\ntwo\0"}, r"rhine\.txt, line 3: a zero byte, so this is no text"),
    ({**RIVERS, "a.jsonl": [THAMES]}, r"others\.jsonl, line 1: the id 'thames' is that of \S+a\.jsonl, line 1 too"),
    ({**RIVERS, "a.jsonl": [{"id": 1}]}, r"a\.jsonl, line 1: a document needs a field 'text' \(it has id\)"),
    ({**RIVERS, "a.jsonl": [{"text": 3}]}, r"a\.jsonl, line 1: the field 'text' is not text"),
    ({**RIVERS, "a.jsonl": [{"text": "x"}, {"text": " "}]}, r"a\.jsonl, line 2: the document has no words"),
    ({**RIVERS, "a.jsonl": ""}, r"a\.jsonl has no rows: write one JSON object per line"),
    ({**RIVERS, "a.jsonl": "{"}, r"a\.jsonl, line 1: not JSON"),
    ({**RIVERS, "a.jsonl": b'{"text": "\xff"}'}, r"a\.jsonl, line 1: not UTF-8 text"),
    ({"rhine.txt": "Rhine"}, r"questions\.jsonl is missing: write lines such as"),
    ({**RIVERS, "questions.jsonl": ""}, r"questions\.jsonl has no rows"),
    (
        {**RIVERS, "questions.jsonl": [{"question": "Who?"}]},
        r"questions\.jsonl, line 1: the question has no answer: add",
    ),
    ({**RIVERS, "questions.jsonl": [{"question": "Who?", "answer": []}]}, r"line 1: the field 'answer' is empty"),
    (
        {**RIVERS, "questions.jsonl": [{"question": "Who?", "answers": ["I", None]}]},
        r"line 1: the field 'answers' is emp",
    ),
    ({**RIVERS, "questions.jsonl": [{"question": "Who?", "answer": {}}]}, r"line 1: the field 'answer' holds a dict"),
    ({**RIVERS, "questions.jsonl": [{"question": "Who?", "answer": "."}]}, r"line 1: the answer '\.' is nothing but"),
    ({**RIVERS, "questions.jsonl": [{"question": "Who?", "answer": "x" * 1000}]}, r"line 1: an answer has 1,000 char"),
    ({**RIVERS, "questions.jsonl": [{"answer": "I"}]}, r"line 1: the field 'question' is empty or missing"),
    ({**RIVERS, "questions.jsonl": numbered(1, split="dev")}, r"line 1: the split is 'dev', but must be train or test"),
    (
        {**RIVERS, "questions.jsonl": [*numbered(1, split="test"), *numbered(1)]},
        r"questions\.jsonl, line 2: the row has no split, though line 1 has one",
    ),
]


@needs_bm25
@pytest.mark.parametrize(("files", "message"), MISTAKES, ids=range(len(MISTAKES)))
def test_mistakes_are_named_by_file_and_line(tmp_path: Path, files: Mapping[str, Any], message: str) -> None:
    with pytest.raises(PodiumError, match=message) as caught:
        opened(tmp_path, files)
    assert "\n" not in str(caught.value)


@needs_bm25
@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may read everything")
def test_a_file_without_permission_is_named(tmp_path: Path) -> None:
    (write(tmp_path, RIVERS) / "rhine.txt").chmod(0)
    with pytest.raises(PodiumError, match=r"rhine\.txt cannot be read: Permission denied"):
        opened(tmp_path, {})


def test_a_folder_is_needed(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(PodiumError, match="lookup: needs a folder: lookup:path/to/folder"):
        worlds.get("lookup:")
    with pytest.raises(PodiumError, match=r"nowhere is not there \(looked in"):
        worlds.get(f"lookup:{tmp_path}/nowhere")
    with pytest.raises(PodiumError, match="file is a file, not a folder"):
        worlds.get(f"lookup:{tmp_path}/file")


def test_without_the_package_a_sentence_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bm25s", None)
    with pytest.raises(PodiumError, match=r"lookup:FOLDER needs the package bm25s: pip install 'podium-rl\[search\]'"):
        opened(tmp_path)
