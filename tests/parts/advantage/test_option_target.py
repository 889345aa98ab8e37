"""Advantages over options of several turns."""

from __future__ import annotations

import pytest
import torch

from podium.core.batch import Batch
from podium.core.build import Rollout, Turn
from podium.core.columns import Origin
from podium.core.signal import Signal
from podium.parts.advantage import OptionTarget

VALUE = Signal("value", of="old")


def three_turns() -> Batch:
    """Three turns of one and two tokens, rewards 1, 2 and 4 at their ends, values 10, 20 and 30 at their beginnings."""
    turns = [Turn((1,)), Turn((1, 2)), Turn((3,))]
    batch = Batch.from_rollouts([Rollout("a", turns, columns={"reward": 7.0, "index": 0})])
    reward, value = torch.tensor([1.0, 0.0, 2.0, 4.0]), torch.tensor([10.0, 20.0, 99.0, 30.0])
    return batch.with_columns({"token.reward": reward}).with_columns({VALUE: value})


@pytest.mark.parametrize(
    ("steps", "targets"),
    [
        (1, [1 + 0.5 * 20, 2 + 0.5 * 30, 2 + 0.5 * 30, 4.0]),
        (2, [1 + 2 + 0.5 * 30, 6.0, 6.0, 4.0]),
        (5, [7.0, 6.0, 6.0, 4.0]),  # longer than the episode: the whole return
    ],
)
def test_rewards_within_an_option_are_not_discounted_and_its_end_once(steps: int, targets: list[float]) -> None:
    found = OptionTarget(steps=steps, gamma=0.5)(three_turns())
    assert found["token.return"].tolist() == pytest.approx(targets)
    baseline = [10.0, 20.0, 20.0, 30.0]
    expected = [q - v for q, v in zip(targets, baseline, strict=True)]
    assert found["token.advantage"].tolist() == pytest.approx(expected)


def test_what_the_world_has_said_has_no_advantage() -> None:
    turn = Turn((1, 2), origin=[Origin.given, Origin.policy])
    batch = Batch.from_rollouts([Rollout("a", [turn], columns={"reward": 3.0, "index": 0})])
    columns = {"token.reward": torch.tensor([0.0, 3.0]), VALUE: torch.tensor([9.0, 1.0])}
    found = OptionTarget()(batch.with_columns(columns))
    assert found["token.return"].tolist() == [0.0, 3.0]
    assert found["token.advantage"].tolist() == [0.0, 2.0]
