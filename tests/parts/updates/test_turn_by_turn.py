"""Turns that are updated one after another, by numbers worked out by hand."""

from __future__ import annotations

import math

import pytest
import torch

from podium.core.batch import Batch
from podium.core.build import Rollout, Turn
from podium.parts.updates import TurnByTurn


def test_the_ratio_of_the_turns_before_is_carried() -> None:
    """Log-probabilities start at −1; each update raises those of its own turn, by ln 1.1 and ln 1.2."""
    turns = [Turn((1, 1), tokens={"old.logp": [-1.0, -1.0], "advantage": [2.0, 2.0]}) for _ in range(3)]
    batch = Batch.from_rollouts([Rollout(0, turns, columns={"reward": 1.0})], dtype=torch.float64)
    now = torch.full((6,), -1.0, dtype=torch.float64)
    part = TurnByTurn(order="sequential", ratio_clip=0.5)
    seen = []
    for number, update in enumerate(part(batch, lambda asked: now.clone())):
        seen.append((float(update["rollout.carried"][0]), update["token.advantage"][0].item()))
        assert update["token.old.logp"].tolist() == pytest.approx(now.tolist())
        now[2 * number : 2 * number + 2] += math.log(1.1 + 0.1 * number)
    assert [x for x, _ in seen] == pytest.approx([1.0, 1.1, 1.1 * 1.2])
    assert [a for _, a in seen] == pytest.approx([2.0, 2.2, 2.64])
