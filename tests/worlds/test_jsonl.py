"""A person's own data."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from podium import methods, worlds
from podium.core.errors import PodiumError
from podium.protocols.world import FailedAction
from podium.report.outcomes import troubles
from podium.sandbox import Limits, unconfinable
from podium.sandbox.graders import MATH
from podium.sessions.train import configure, train
from podium.worlds import Jsonl, jsonl

needs_math = pytest.mark.skipif(
    importlib.util.find_spec("math_verify") is None or bool(unconfinable()), reason="needs the extra `math` and seccomp"
)
GSM8K = {"question": "Ann has 48 clips and half as many more. How many?", "answer": "48/2 = <<48/2=24>>24.\n#### 1,072"}


def write(path: Path, *rows: object) -> str:
    file = path / "data.jsonl"
    file.write_text("\n".join(json.dumps(row) for row in rows) + "\n")
    return f"jsonl:{file}"


def numbered(count: int) -> list[dict[str, object]]:
    return [{"question": f"What is {i} + 1?", "answer": i + 1} for i in range(count)]


def get(name: str, **settings: object) -> Jsonl:
    world = worlds.get(name, **settings)
    assert isinstance(world, Jsonl)
    return world


def test_gsm8k_is_recognised(tmp_path: Path) -> None:
    world = get(write(tmp_path, GSM8K), held_out=0)
    task = world.task(0)
    assert world.solve(task) == "48/2 = 24.\nanswer: 1,072"
    assert world.grade(task, world.solve(task)).info == {"correct": True, "answer": "1072"}
    assert world.grade(task, "answer: 1072").reward == 1
    assert world.grade(task, "answer: $1,072.00").reward == 1
    assert world.grade(task, "it is \\boxed{1072}").reward == 1
    assert world.grade(task, "answer: 1073").reward == 0
    assert world.grade(task, "1072").reward == 1
    assert world.why(task, "1073") == "read '1073', expected '1,072'"


def test_a_share_of_the_rows_is_held_out_by_its_question(tmp_path: Path) -> None:
    rows = numbered(400)
    world = get(write(tmp_path, *rows, *rows), held_out=0.25)  # every question twice
    splits = {split: {world.task(i, split).prompt for i in range(world.size(split))} for split in ("train", "test")}
    assert not splits["train"] & splits["test"]
    assert len(splits["train"] | splits["test"]) == 400
    assert len(splits["test"]) == pytest.approx(100, abs=27)
    assert worlds.check_world(world) == []


def test_held_out_tasks_can_come_from_a_second_file(tmp_path: Path) -> None:
    name = write(tmp_path, *numbered(5))
    (tmp_path / "test.jsonl").write_text(json.dumps({"question": "q", "answer": "a"}))
    world = get(name, test_file=str(tmp_path / "test.jsonl"))
    assert (world.size("train"), world.size("test")) == (5, 1)
    assert world.task(0, "test").data["answer"] == "a"


def test_fields_are_named_by_settings(tmp_path: Path) -> None:
    name = write(tmp_path, {"Q": "two?", "A": 2.0, "S": "one and one"})
    world = get(name, prompt_field="Q", answer_field="A", solution_field="S", held_out=0, instructions=False)
    assert world.task(0).prompt == "two?"
    assert world.solve(world.task(0)) == "one and one\nanswer: 2"


@needs_math
@pytest.mark.parametrize(
    ("gold", "said", "right"),
    [("\\frac{1}{2}", "0.5", True), ("x^2+1", "1+x^2", True), ("\\frac{1}{2}", "0.6", False), ("7", "seven", False)],
)
def test_math_verify_sees_equal_mathematics(tmp_path: Path, gold: str, said: str, right: bool) -> None:
    world = get(write(tmp_path, {"question": "?", "answer": gold}), held_out=0, grader="math")
    task = world.task(0)
    assert world.grade(task, f"answer: {said}").info["correct"] is right


@needs_math
def test_an_answer_that_hangs_is_a_failed_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    MATH.close()
    monkeypatch.setattr(MATH.sandbox, "limits", Limits(wall_s=10, cpu_s=0.3))
    world = get(write(tmp_path, {"question": "?", "answer": "\\frac{1}{2}"}), held_out=0)
    for answer in ("9^{9^{9}}", "10^{10000000}!"):
        with pytest.raises(FailedAction, match="the answer could not be judged"):
            world.grade(world.task(0), f"answer: {answer}")
    assert world.grade(world.task(0), "answer: 0.5").reward == 1
    world.close()


HANGING = """
from podium.worlds import Jsonl

class Mine(Jsonl):
    def read(self, text):
        return "9^{9^{9}}" if len(text) % 3 == 0 else "1/2" if len(text) % 3 == 1 else "0.6"
"""


@needs_math
def test_a_run_goes_on_where_answers_hang(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are wrong, they are trained on, and they are counted and shown with their reason."""
    MATH.close()
    monkeypatch.setattr(MATH.sandbox, "limits", Limits(wall_s=20, cpu_s=0.2))
    write(tmp_path, *({"question": f"What is half of {i}/{i}?", "answer": "0.5"} for i in range(1, 9)))
    (tmp_path / "mine.py").write_text(HANGING)
    settings = {"tasks": 2, "eval_tasks": 1, "eval_samples": 1, "iterations": 2}
    world = {"file": str(tmp_path / "data.jsonl")}
    config = configure(methods.get("grpo", n=8), world=f"{tmp_path}/mine.py:Mine", world_settings=world, **settings)
    result = train(config, out=tmp_path / "run")
    assert result.finished
    files = sorted((tmp_path / "run/rollouts").glob("*.parquet"))
    rows = [{**row, "group": (file, row["group"])} for file in files for row in pq.read_table(file).to_pylist()]
    failed = [row for row in rows if row["failure"]]
    assert 0 < len(failed) < len(rows)
    for row in failed:
        assert row["failure"].startswith("the answer could not be judged (timeout): it took more than")
        assert (row["reward"], row["correct"]) == (0.0, False)
    assert sum(line.get("failures", 0) for line in result.metrics) == len(failed)
    mixed = {row["group"] for row in rows if row["correct"]}
    assert any(row["advantage"] < 0 for row in failed if row["group"] in mixed)
    said = [sentence for line in result.metrics for _, sentence in troubles(line)]
    assert any("rollouts: the answer could not be judged (timeout)" in sentence for sentence in said)


def test_exact_grading_starts_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MATH.sandbox, "start", lambda: pytest.fail("a process was started"))
    world = get(write(tmp_path, {"question": "?", "answer": "1,072"}), held_out=0)
    assert world.grade(world.task(0), "answer: 1072.0").reward == 1
    exact = world.replace(grader="exact")
    assert exact.grade(exact.task(0), "answer: 2^{10}+48").reward == 0


@needs_math
def test_a_system_that_cannot_confine_math_verify_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonl, "unconfinable", lambda: "Plan 9 has no seccomp")
    name = write(tmp_path, {"question": "?", "answer": "1"})
    with pytest.raises(PodiumError, match=r"Plan 9 has no seccomp\. Set grader = 'exact'"):
        get(name)
    assert get(name, grader="exact").size() + get(name, grader="exact").size("test") == 1


def test_exact_grading_needs_no_package(tmp_path: Path) -> None:
    world = get(write(tmp_path, {"question": "?", "answer": "\\frac{1}{2}"}), held_out=0, grader="exact")
    assert world.grade(world.task(0), "answer: 0.25 + 0.25").reward == 0
    assert world.grade(world.task(0), "answer: \\frac{1}{2}.").reward == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "has no rows"),
        (b"\n \n", "has no rows"),
        (b'{"question": "q", "answer": "1"}\n{"question": "q"}\n', "line 2: none of the fields answer"),
        (b'{"question": "q", "answer": "1"}\n\n{"question": oops}\n', "line 3: not JSON"),
        (b'{"question": "q", "answer": "1"}\n[1, 2]\n', "line 2: a row must be a JSON object"),
        (b'{"question": "q", "answer": {"a": 1}}\n', "line 1: the field 'answer' holds a dict"),
        (b'{"question": "q", "answer": null}\n', "line 1: the field 'answer' is null"),
        (b'{"question": "q", "answer": " "}\n', "line 1: the answer is empty"),
        (b'{"question": "\xff", "answer": "1"}\n', "line 1: not UTF-8"),
        (b'{"text": "q"}\n', "it has text). Set prompt_field"),
        (b"[" * 100_000, "line 1: its lists and objects are nested too deep"),
        (b'{"question": "q", "answer": ' + b"9" * 5000 + b"}", "line 1: a number has 5000 digits"),
        (b'{"question": "q", "answer": NaN}', "line 1: NaN is no value of JSON"),
        (b'{"question": "q", "answer": -Infinity}', "line 1: -Infinity is no value of JSON"),
        (b'{"question": "q", "answer": 1e999}', "line 1: the number 1e999 is too large"),
        (b'\n{"question": "q", "answer": "\\ud83d"}', r"line 2: \ud83d is half of a character"),
        (b'\n{"question": "q", "\\uDC00": "1"}', r"line 2: \udc00 is half of a character"),
        (b'{"question": "q", "answer": "1", "answer": "2"}', "line 1: the field 'answer' occurs twice"),
        (b'{"\\u001b]0;owned\\u0007": "q"}', r"it has \x1b]0;owned\x07"),
    ],
)
def test_a_bad_file_is_refused_with_its_line(tmp_path: Path, content: bytes, message: str) -> None:
    file = tmp_path / "data.jsonl"
    file.write_bytes(content)
    with pytest.raises(PodiumError) as error:
        worlds.get(f"jsonl:{file}")
    assert message in str(error.value)
    assert str(file) in str(error.value)


def test_both_halves_of_a_character_are_one_character(tmp_path: Path) -> None:
    (tmp_path / "data.jsonl").write_bytes(b'{"question": "\\ud83d\\ude00", "answer": "1"}')
    assert worlds.get(f"jsonl:{tmp_path / 'data.jsonl'}", held_out=0).task(0).prompt.startswith("\U0001f600")


def test_annotations_of_calculations_are_left_out_of_solutions(tmp_path: Path) -> None:
    answer = "6*7=<<6*7=42>>42 a<<b>>c<<d\n>>e\n#### 42"
    world = get(write(tmp_path, {"question": "?", "answer": answer}), held_out=0)
    assert world.task(0).data["solution"] == "6*7=42 ac<<d\n>>e"


def test_a_misspelt_field_gets_its_nearest_name(tmp_path: Path) -> None:
    with pytest.raises(PodiumError, match=r"line 1: the row has no field 'anser' \(answer_field\).*'answer'"):
        worlds.get(write(tmp_path, *numbered(2)), answer_field="anser")


def test_a_missing_file_and_an_empty_split_are_said(tmp_path: Path) -> None:
    with pytest.raises(PodiumError, match="There is no file"):
        worlds.get(f"jsonl:{tmp_path / 'none.jsonl'}")
    world = get(write(tmp_path, *numbered(3)), held_out=0)
    with pytest.raises(PodiumError, match="test_file"):
        world.task(0, "test")
    with pytest.raises(PodiumError, match="has 3 train tasks"):
        world.task(3)
