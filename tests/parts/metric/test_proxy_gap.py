"""Whether a dense reward goes with the outcome."""

from __future__ import annotations

import math

import pytest
import torch

from podium.core.batch import Batch
from podium.core.build import Rollout, Turn
from podium.parts.metric import ProxyGap


def told(rows: list[tuple[str, float, bool]]) -> tuple[float, float]:
    rollouts = [
        Rollout(task, (Turn((1,), (2,)),), columns={"reward": reward, "correct": correct})
        for task, reward, correct in rows
    ]
    found = ProxyGap()(Batch.from_rollouts(rollouts, dtype=torch.float64))
    return float(found["batch.proxy.correlation"]), float(found["batch.proxy.alarm"])


def test_the_correlation_is_within_tasks() -> None:
    """A hard task that pays more says nothing: only differences between answers to one task do."""
    rows = [("easy", 0.0, True), ("easy", 0.0, True), ("hard", 9.0, False), ("hard", 10.0, True)]
    assert told(rows) == (pytest.approx(1.0), 0.0)


def test_paying_for_wrong_answers_raises_the_alarm() -> None:
    rows = [("a", 3.0, False), ("a", 1.0, True), ("b", 1.0, True), ("b", 2.0, False), ("b", 0.0, False)]
    # centred: pay 1, −1, 0, 1, −1; outcome −½, ½, ⅔, −⅓, −⅓
    assert told(rows) == (pytest.approx(-1.0 / math.sqrt(4 * (0.5 + 6 / 9))), 1.0)


def test_without_differences_there_is_nothing_to_tell() -> None:
    correlation, alarm = told([("a", 1.0, True), ("a", 1.0, False)])
    assert math.isnan(correlation)
    assert alarm == 0.0


def test_only_a_negative_correlation_is_alarming() -> None:
    rows = [("a", 1.0, True), ("a", 0.0, True), ("a", 1.0, False), ("a", 0.0, False)]
    assert told(rows) == (0.0, 0.0)
    # centred: pay ⅓, ⅓, −⅔; outcome ⅔, −⅓, −⅓: their product is ⅓, and each has the square ⅔
    assert told([("a", 1.0, True), ("a", 1.0, False), ("a", 0.0, False)]) == (pytest.approx(0.5), 0.0)


def test_huge_rewards_do_not_overflow() -> None:
    assert told([("a", 1e300, True), ("a", -1e300, False)]) == (pytest.approx(1.0), 0.0)
