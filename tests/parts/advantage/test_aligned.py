"""Advantage alignment: the worked example, what does not matter, and what is refused."""

from __future__ import annotations

import pytest
import torch

from podium.core.batch import Batch
from podium.core.build import Rollout, Turn
from podium.core.errors import PodiumError
from podium.parts.advantage import AlignedReturns

OWN, OTHER = [[3, 0, 5], [1, 1, 1]], [[3, 5, 0], [1, 1, 1]]


def game(own: list[list[float]], other: list[list[float]], agents: tuple[str, ...] = ("a", "b")) -> Batch:
    rows = []
    for mine, theirs in zip(own, other, strict=True):
        paid = [(agent, r) for both in zip(mine, theirs, strict=True) for agent, r in zip(agents, both, strict=False)]
        rows.append(Rollout("task", [Turn([0], columns={"reward": float(r), "agent": a}) for a, r in paid]))
    return Batch.from_rollouts(rows, dtype=torch.float64)


def credit(part: AlignedReturns, own: list[list[float]] = OWN, other: list[list[float]] = OTHER) -> torch.Tensor:
    return part(game(own, other))["turn.advantage"].reshape(len(own), -1, 2)[..., 0]


def test_worked_example() -> None:
    expected = torch.tensor([[0.868, 0.737955, 0.694603], [-0.868, -0.302045, -0.905397]], dtype=torch.float64)
    assert torch.allclose(credit(AlignedReturns(scale=5.0)), expected, atol=1e-6)


def test_a_constant_in_every_reward_changes_nothing() -> None:
    shifted = [[[x + 7 for x in row] for row in rows] for rows in (OWN, OTHER)]
    assert torch.allclose(credit(AlignedReturns()), credit(AlignedReturns(), *shifted))


def test_each_agent_is_credited_from_its_own_view() -> None:
    mirrored = AlignedReturns()(game(OTHER, OWN))["turn.advantage"].reshape(2, -1, 2)[..., 1]
    assert torch.allclose(credit(AlignedReturns()), mirrored)


def test_without_alignment_and_with_the_sum_both_agents_have_the_same_credit() -> None:
    both = AlignedReturns(beta=0.0, reward="sum")(game(OWN, OTHER))["turn.advantage"].reshape(2, -1, 2)
    assert torch.equal(both[..., 0], both[..., 1])


def test_an_ended_game_counts_as_nothing_in_the_baseline_of_the_others() -> None:
    rows = [Rollout("task", [Turn([0], columns={"reward": 1.0, "agent": a}) for a in "ab" * n]) for n in (1, 2)]
    found = AlignedReturns(beta=0.0, gamma=1.0)(Batch.from_rollouts(rows))["turn.advantage"]
    assert found.tolist() == [-1.0, -1.0, 1.0, 1.0, 1.0, 1.0]


def test_three_agents_are_refused() -> None:
    rows = [Rollout("task", [Turn([0], columns={"reward": 0.0, "agent": agent}) for agent in "abc"])]
    with pytest.raises(PodiumError, match="for two agents, and the rollouts have 3"):
        AlignedReturns()(Batch.from_rollouts(rows))
