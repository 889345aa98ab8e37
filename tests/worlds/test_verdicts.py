"""Pairs of attempts to judge: one is right, and its length says nothing, or the wrong thing."""

from __future__ import annotations

from typing import Any

import pytest

from podium.core.errors import PodiumError
from podium.worlds import Verdicts
from podium.worlds.checker import check_world


def share_longer(world: Verdicts, count: int = 200) -> float:
    """How often the longer attempt is the better one, where their lengths differ."""
    pairs = [world.pair(world.task(index)) for index in range(count)]
    told = [pair for pair in pairs if len(pair.texts[0]) != len(pair.texts[1])]
    return sum(pair.longer == pair.better for pair in told) / len(told)


def test_the_better_attempt_is_right_and_the_other_wrong() -> None:
    world = Verdicts(level=2)
    for index in range(50):
        task = world.task(index, "test")
        pair = world.pair(task)
        right = [pair.world.grade(pair.task, text).info["correct"] for text in pair.texts]
        assert right == ([True, False] if task.data["label"] == "A" else [False, True])
        assert task.prompt.endswith("which is better?")


def test_length_says_nothing_or_misleads_or_tells() -> None:
    assert 0.4 < share_longer(Verdicts(level=2)) < 0.6
    assert share_longer(Verdicts(level=2, lengths="misleading"), 50) == 0
    assert share_longer(Verdicts(level=2, lengths="telling"), 50) == 1


@pytest.mark.parametrize("settings", [{}, {"level": 3, "kind": "sums"}, {"scaled": True}, {"lengths": "misleading"}])
def test_solutions_of_both_styles_are_right_and_attempts_as_often_as_asked(settings: dict[str, Any]) -> None:
    world = Verdicts(**settings)
    tasks = [world.task(index) for index in range(60)]
    for style in world.styles:
        assert all(world.grade(task, world.solve(task, style)).reward == 1 for task in tasks)
        rates = [world.grade(task, world.attempt(task, style, right=0.0)).info["correct"] for task in tasks]
        assert not any(rates)
    assert all("\n" not in world.solve(task, "short") for task in tasks)
    check_world(world)


def test_a_scaled_verdict_of_the_right_sign_earns_half() -> None:
    world = Verdicts(scaled=True)
    task = next(t for t in map(world.task, range(50)) if t.data["label"] == "-2")
    assert [world.grade(task, f"verdict: {said}").reward for said in ("-2", "-3", "2", "A", "0")] == [1, 0.5, 0, 0, 0]
    labels = {world.task(index).data["label"] for index in range(100)}
    assert labels == {"-3", "-2", "-1", "1", "2", "3"}


def test_what_cannot_be_read_earns_nothing() -> None:
    world = Verdicts()
    task = world.task(0)
    assert [world.grade(task, text).reward for text in ("", "A", "verdict: 3", "verdict: C")] == [0, 0, 0, 0]
    assert world.grade(task, f"verdict: C\nverdict: {task.data['label']}").reward == 1


@pytest.mark.parametrize("settings", [{"kind": "chess"}, {"lengths": "long"}, {"alike": 2.0}])
def test_bad_settings(settings: dict[str, Any]) -> None:
    with pytest.raises(PodiumError, match=next(iter(settings))):
        Verdicts(**settings)
