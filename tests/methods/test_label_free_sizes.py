"""Sizes that follow the number of rollouts, the limit of an answer and the length of a run."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest

from podium import methods, worlds
from podium.core.errors import PodiumError
from podium.core.shares import scaled
from podium.sessions.compare import compare
from podium.strategies import Sample
from podium.worlds.puzzle import Puzzle


@pytest.mark.parametrize(
    ("n", "trained", "expected"), [(8, 0.5, 4), (64, 0.5, 32), (5, 0.5, 2), (1, 0.5, 1), (8, 3, 3), (8, None, 8)]
)
def test_a_share_of_the_rollouts_is_trained(n: int, trained: float | None, expected: int) -> None:
    assert Sample(n=n, trained=trained).trained_rollouts == expected


@pytest.mark.parametrize("trained", [0, 9, 2.5])
def test_no_rollout_more_than_all_and_half_of_one_are_refused(trained: float) -> None:
    with pytest.raises(PodiumError, match="trained"):
        Sample(n=8, trained=trained)


def test_ttrl_is_compared_with_grpo_at_the_same_number_of_rollouts(tmp_path: Path) -> None:
    found = compare(
        ["grpo", "ttrl"], seeds=1, n=2, out=tmp_path, world="sums", iterations=1, tasks=2, eval_tasks=2, max_tokens=24
    )
    assert [row.name for row in found.rows] == ["grpo", "ttrl"]
    assert found.rows[1].updates == 8
    assert methods.get("ttrl@paper").rollout.trained_rollouts == 32  # type: ignore[union-attr]


def test_a_constant_length_is_the_limit_of_the_run() -> None:
    totals = {"max_tokens": 80, "iterations": 12}
    for slug in ("hpt", "ampo", "trapo"):
        assert 80 in {term.aggregate.length for term in scaled(methods.get(slug), totals).objective}, slug
    assert 8192 in {term.aggregate.length for term in methods.get("hpt@paper").objective}


@pytest.mark.parametrize("name", ["echo", "sums", "countdown", "rules"])
def test_no_rubric_gives_the_answer_away(name: str) -> None:
    world = worlds.get(name)
    for level, number in itertools.product(world.levels, range(20)):
        puzzle = worlds.get(name, level=level)
        assert isinstance(puzzle, Puzzle)
        task = puzzle.task(number)
        words = re.findall(r"\w+", puzzle.reference(task))
        for criterion in puzzle.criteria(task):
            assert criterion.text
            said = re.findall(r"\w+", criterion.text)
            spans = [said[i : i + len(words)] for i in range(len(said))]
            assert words not in spans, (task.prompt, criterion.text)
