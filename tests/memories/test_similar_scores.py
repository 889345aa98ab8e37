"""Success rates of tasks by those of similar prompts."""

from __future__ import annotations

import pytest

from podium.core.batch import Batch
from podium.core.build import Rollout, Turn
from podium.memories import SimilarScores


def batch_of(*prompts: tuple[str, list[bool]]) -> Batch:
    rows = [
        Rollout(prompt, [Turn([0])], columns={"reward": float(right), "correct": right, "prompt": prompt, "index": i})
        for prompt, verdicts in prompts
        for i, right in enumerate(verdicts)
    ]
    return Batch.from_rollouts(rows)


def test_a_prompt_has_the_scores_of_those_that_resemble_it() -> None:
    """`abcd` has the sequences abc and bcd, as `abce` has abc: similarity 1 / (√2 √2) = ½, squared ¼; `wxyz` none.

    v = (½ · 0.1 + ¼ · 1 + 0 · 0) / (0.1 + ¼ + 0) = 0.3 / 0.35.
    """
    memory = SimilarScores(sharpness=2.0, prior=0.1)
    state = {"scores": (("abce", 1.0), ("wxyz", 0.0))}
    recalled = memory.recall(state, ["abcd", "wxyz", "9999"])
    # wxyz itself: (½ · 0.1 + 1 · 0) / 1.1; nothing is like 9999.
    assert recalled["group.value"].tolist() == pytest.approx([0.3 / 0.35, 0.05 / 1.1, 0.5])
    assert recalled["group.prior"].tolist() == pytest.approx([0.6 / 0.35 - 1, 0.1 / 1.1 - 1, 0.0])


def test_the_newest_scores_are_kept_and_a_prompt_has_one() -> None:
    memory = SimilarScores(support=2)
    state = memory.observe(memory.initial(), batch_of(("a", [True, False]), ("b", [False, False])))
    assert state["scores"] == (("a", 0.5), ("b", 0.0))
    state = memory.observe(state, batch_of(("a", [True, True]), ("c", [False, True])))
    assert state["scores"] == (("a", 1.0), ("c", 0.5))


def test_before_the_first_score_nothing_is_known() -> None:
    memory = SimilarScores()
    assert memory.recall(memory.initial(), ["a", "b"])["group.value"].tolist() == [0.5, 0.5]


def test_a_prompt_of_two_groups_has_their_mean() -> None:
    columns = [("one", True), ("two", False)]
    rows = [
        Rollout(task, [Turn([0])], columns={"reward": float(right), "correct": right, "prompt": "a", "index": 0})
        for task, right in columns
    ]
    memory = SimilarScores()
    assert memory.observe(memory.initial(), Batch.from_rollouts(rows))["scores"] == (("a", 0.5),)
