"""Help that cannot be given: refused in a sentence before anything is sampled, or counted in the metrics."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from podium import methods, worlds
from podium.cli import main
from podium.core.errors import PodiumError
from podium.protocols.world import Criterion
from podium.strategies import HintTiers, SolutionShares, Teachers, WorkedExamples
from podium.worlds import Jsonl, Sums, Task
from tests.methods.catalogue import errors, finite, lines, small

HINTS = ("ghpo", "scaf-grpo", "sage", "sage@light", "hill", "seele", "adhint")


class Mistaken(Sums):
    """Its solutions are wrong."""

    def solve(self, task: Task, style: str = "short", seed: int = 0) -> str:
        return "one\nanswer: -1"


class Longwinded(Sums):
    """Its solutions do not fit into a context."""

    def solve(self, task: Task, style: str = "short", seed: int = 0) -> str:
        return "one two three\n" * 400 + f"answer: {task.data['answer']}"


class Verbose(Sums):
    """Its criteria do not fit into a context."""

    def criteria(self, task: Task) -> tuple[Criterion, ...]:
        return tuple(Criterion("one two three " * 400, c.points) for c in super().criteria(task))


class Unjudged(Sums):
    """It has checklists, but there is nothing on them."""

    def criteria(self, task: Task) -> tuple[Criterion, ...]:
        return ()

    def met(self, task: Task, text: str) -> tuple[bool, ...]:
        return ()


def question_file(path: Path, rows: int = 12, **fields: object) -> Path:
    """Questions with answers, and nothing else unless it is given."""
    made = [{"question": f"sum: 1+{i}", "answer": str(i + 1), **fields} for i in range(rows)]
    path.write_text("\n".join(map(json.dumps, made)))
    return path


# -- solutions ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("slug", ["ghpo", "scaf-grpo", "sage", "hill", "seele", "adhint"])
@pytest.mark.parametrize("world", [Mistaken(level=5), Longwinded(level=5)])
def test_without_a_solution_that_verifies_and_fits_groups_stay_as_they_are_and_are_counted(
    slug: str, world: Sums
) -> None:
    found = lines(small(slug, n=2), world, iterations=1, max_tokens=16)
    assert finite(found)
    assert found[0]["help.missing"] > 0
    assert found[0]["help.level"] == 0


@pytest.mark.parametrize("world", [Mistaken(level=2), Longwinded(level=2)])
def test_an_example_whose_solution_does_not_verify_or_fit_is_not_shown(world: Sums) -> None:
    found = lines(small(methods.icpo(examples=WorkedExamples())), world, iterations=1, max_tokens=16)
    assert finite(found)
    assert found[0]["help.missing"] == 1
    assert found[0]["help.level"] == 0


def test_an_example_that_verifies_is_shown() -> None:
    found = lines(small(methods.icpo(examples=WorkedExamples())), Sums(level=2), iterations=1, max_tokens=16)
    assert found[0]["help.missing"] == 0
    assert found[0]["help.level"] > 0


def test_hints_need_a_world_that_writes_solutions() -> None:
    blind = type("Blind", (Sums,), {"provides": ("rollout.correct", "rollout.answer")})()
    for slug in (*HINTS, "icpo", "ampo"):
        assert any("written solutions" in message for message in errors(small(slug), blind)), slug


@pytest.mark.parametrize("slug", ["ghpo", "scaf-grpo", "sage", "hill", "seele"])
def test_solutions_that_are_an_answer_and_nothing_else_are_spoken_of_before_the_run(slug: str, tmp_path: Path) -> None:
    world = Jsonl(file=str(question_file(tmp_path / "questions.jsonl")), instructions=False)
    (note,) = small(slug).rollout.prepare(world)
    assert "hold an answer alone" in note
    assert "world.solution_field=…" in note
    assert not small(slug).rollout.prepare(Sums(level=2))


def test_what_is_said_before_a_run_is_printed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = question_file(tmp_path / "questions.jsonl")
    words = ("ghpo", "--world", f"jsonl:{file}", "--iterations", "1", "--set", "tasks=1", "--set", "n=2")
    assert main(["train", *words, "--set", "eval_tasks=1", "--out", str(tmp_path / "run")]) == 0
    assert "hold an answer alone" in capsys.readouterr().out.replace("\n", " ")
    (line,) = [json.loads(x) for x in (tmp_path / "run/metrics.jsonl").read_text().splitlines()][1:]
    assert line["help.missing"] > 0


def test_hints_that_come_with_some_tasks_need_no_solutions(tmp_path: Path) -> None:
    file = question_file(tmp_path / "questions.jsonl", hints={"knowledge": ["add"]})
    world = Jsonl(file=str(file), instructions=False, hints_field="hints")
    assert not HintTiers().prepare(world)
    assert SolutionShares().prepare(world)


# -- teachers ----------------------------------------------------------------------------------------------------------


def typed(capsys: pytest.CaptureFixture[str], path: Path, *words: str) -> str:
    """The one line with which a command is refused."""
    assert main(["train", *words, "--out", str(path / "run")]) == 2
    said = capsys.readouterr().err
    assert said.startswith("Error: ")
    assert said.count("\n") == 1
    assert not (path / "run").exists()
    return said


def test_a_teacher_file_that_is_not_there(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    said = typed(capsys, tmp_path, "ampo", "--set", f"teachers={tmp_path / 'none.jsonl'}")
    assert "none.jsonl" in said
    assert "the world's own solutions are the teachers" in said
    with pytest.raises(PodiumError, match=r"none\.jsonl"):
        lines(methods.ampo(n=2, teachers=str(tmp_path / "none.jsonl")), Sums(level=5))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\xff\xfe\x00", "line 1: not UTF-8"),
        (b'{"task": "sums-5/train/0", "text": "a"}\n{"task": ', "line 2: not JSON"),
        (b"", "has no rows"),
        (b'{"text": "answer: 3"}', "line 1.*task"),
        (b'{"task": "sums-5/train/0"}', "line 1.*text"),
        (b'{"task": "maths/17", "text": "answer: 3"}', "maths/17.*sums-5/train/0.*Name the tasks"),
    ],
)
def test_a_teacher_file_that_cannot_be_read(content: bytes, said: str, tmp_path: Path) -> None:
    file = tmp_path / "teachers.jsonl"
    file.write_bytes(content)
    with pytest.raises(PodiumError, match=said):
        Teachers(str(file)).prepare(Sums(level=5))


def test_a_teacher_file_with_other_names_as_typed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "teachers.jsonl"
    file.write_text(json.dumps({"task": "maths/17", "text": "answer: 3"}))
    said = typed(capsys, tmp_path, "ampo", "--set", f"teachers={file}")
    assert "'maths/17'" in said
    assert "'sums-2/train/0'" in said


def test_tasks_without_a_teacher_are_counted(tmp_path: Path) -> None:
    file = tmp_path / "teachers.jsonl"
    file.write_text(json.dumps({"task": "sums-5/train/999", "text": "answer: 3"}))
    found = lines(methods.ampo(n=2, teachers=str(file)), Sums(level=5), iterations=1)
    assert found[0]["help.missing"] > 0


def test_teachers_answers_that_do_not_fit_are_left_out_and_counted() -> None:
    found = lines(methods.ampo(n=2), Longwinded(level=5), iterations=1, max_tokens=16)
    assert finite(found)
    assert found[0]["help.missing"] > 0
    assert found[0]["watched.guided"] == 0


# -- checklists and steps ----------------------------------------------------------------------------------------------


def test_methods_with_rubrics_or_steps_are_refused_in_one_sentence_where_there_are_none() -> None:
    quest = worlds.get("keydoor")
    for slug, said in (("rgr-grpo", "checklist"), ("ruscarl", "checklist"), ("scope", "goes wrong")):
        (message,) = errors(small(slug), quest)
        assert said in message, slug
        assert "take an embedded puzzle" in message


@pytest.mark.parametrize("slug", ["ruscarl", "rgr-grpo"])
def test_criteria_that_leave_no_room_are_not_shown(slug: str) -> None:
    found = lines(small(slug), Verbose(level=2), iterations=1, max_tokens=16)
    assert finite(found)
    assert found[0]["help.missing"] > 0
    assert found[0]["help.level"] == 0


@pytest.mark.parametrize("slug", ["ruscarl", "rgr-grpo"])
def test_an_empty_checklist_rewards_nothing_and_asks_for_nothing(slug: str) -> None:
    found = lines(small(slug), Unjudged(level=2), iterations=1, max_tokens=16)
    assert finite(found)
    assert found[0]["reward.rubric"] == 0
    assert found[0]["help.level"] == 0


def test_a_guide_whose_end_does_not_fit_leaves_the_failure_as_it_is() -> None:
    class Rambling(Sums):
        def completed(self, task: Task, beginning: str) -> str | None:
            return "one two three\n" * 400 + f"answer: {task.data['answer']}"

    found = lines(small(methods.scope(prefix=0.0)), Rambling(level=5), iterations=1, max_tokens=16)
    assert finite(found)
    assert found[0]["watched.guided"] == 0
    assert found[0]["help.missing"] > 0
