"""Values of turns: what a critic regresses, and what the policy is credited with."""

from __future__ import annotations

import pytest
import torch

from podium.core.batch import Batch
from podium.core.build import Rollout, Turn
from podium.parts.objective import PrefixValueLoss
from podium.parts.objective.prefix_value import NOW
from podium.parts.objective.turn_critic import LATEST
from podium.parts.shape import LatestTurnQ


def test_values_before_and_after_an_action_are_drawn_to_what_the_team_earns() -> None:
    """One turn of three tokens with a return of 2: (0.5 − 2)² + (3 − 2)² = 3.25."""
    turn = Turn([1, 2, 3], columns={"reward": 2.0, "round": 0})
    batch = Batch.from_rollouts([Rollout("a", [turn], columns={"reward": 2.0})], dtype=torch.float64)
    values = torch.tensor([0.5, 9.0, 3.0], dtype=torch.float64)
    assert PrefixValueLoss(gamma=0.5).loss(batch.with_columns({NOW: values})).tolist() == pytest.approx([3.25])


def test_the_credit_of_a_turn_is_the_lower_q_less_the_lower_v() -> None:
    """Q at the last token of the turn, V at its first: min(5, 4) − min(1, 2)."""
    batch = Batch.from_rollouts([Rollout("a", [Turn([1, 2])], columns={"reward": 0.0})], dtype=torch.float64)
    heads = {"q1": [0.0, 5.0], "q2": [0.0, 4.0], "v1": [1.0, 0.0], "v2": [2.0, 0.0]}
    columns = {LATEST[name]: torch.tensor(x, dtype=torch.float64) for name, x in heads.items()}
    assert LatestTurnQ()(batch.with_columns(columns))["turn.advantage"].tolist() == [3.0]
