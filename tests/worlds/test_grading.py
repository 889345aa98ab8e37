"""The grader, held to answers that people have judged."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from podium.cli.app import main
from podium.protocols.answer_forms import Stated, find_answer
from podium.sandbox import unconfinable
from podium.sessions.train import train
from podium.worlds.grading import canonical, grade_answer, number_of
from tools.grader import answers, disagreements

needs_math = pytest.mark.skipif(
    importlib.util.find_spec("math_verify") is None or bool(unconfinable()), reason="needs the extra `math` and seccomp"
)


@needs_math
@pytest.mark.parametrize("chosen", ["tuning", "apart"])
def test_the_grader_agrees_with_people(chosen: str) -> None:
    rows = answers(chosen)
    assert len(rows) >= 100
    wrong = list(disagreements(rows))
    assert len(wrong) <= 0.01 * len(rows), wrong
    assert not [row for row, _ in wrong if not row["right"]]  # false accepts


def test_half_of_the_answers_are_wrong_and_a_third_is_set_apart() -> None:
    tuning, apart = answers("tuning"), answers("apart")
    both = tuning + apart
    assert len(both) >= 300
    assert 0.4 < sum(row["right"] for row in both) / len(both) < 0.6
    assert len(apart) / len(both) > 1 / 3 - 0.02


def test_without_math_verify_nothing_wrong_is_accepted() -> None:
    wrong = list(disagreements(answers("tuning") + answers("apart"), grader="exact"))
    assert all(row["right"] for row, _ in wrong)
    assert all(why for _, why in wrong)


def test_the_last_statement_counts() -> None:
    assert find_answer("\\boxed{1}\n#### 2\n<answer>3</answer>\nThe answer is 4.") == Stated("4", "in a sentence", 40)
    assert find_answer("answer: 4\nor rather \\boxed{5}") == Stated("5", "in \\boxed{}", 20)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "the text is empty"),
        ("<think>so 5", "the thinking never ended"),
        ("answer: 6", "read '6', expected '5'"),
        ("answer: 5 or 6", "more than one answer is given"),
        ("no idea", "nor is there a number"),
    ],
)
def test_every_zero_has_a_reason(text: str, why: str) -> None:
    grade = grade_answer("5", text)
    assert not grade.correct
    assert why in grade.why


def test_equivalent_answers_have_one_canonical_form() -> None:
    assert {canonical(text) for text in ("1,072", "1072.0", "$1,072.00", "1072 clips")} == {"1072"}
    assert canonical("\\frac{3}{4}") == canonical("0.75") == "0.75"
    assert canonical("2/3") == "2/3"
    assert canonical(" Paris. ") == "paris"
    assert number_of("3 + 4") is None


def test_a_run_says_why_its_rollouts_earned_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"question": f"{i} + 1?", "answer": str(i + 1)} for i in range(6)]
    (tmp_path / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for world in (f"data:{tmp_path}/data.jsonl", "sums"):
        run = tmp_path / world.partition(":")[0]
        train("grpo", world=world, iterations=1, tasks=2, eval_tasks=1, eval_every=0, out=run)
        assert main(["rollouts", str(run), "--why"]) == 0
        out = capsys.readouterr().out
        assert "of 16 rollouts are not right" in out
        assert "× read …" in out
