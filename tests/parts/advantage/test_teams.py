"""Advantages of several rewards, of rewritten rollouts and of teams, by numbers worked out by hand."""

from __future__ import annotations

import math

import pytest
import torch

from podium.core.batch import Batch
from podium.core.build import Rollout, Turn
from podium.parts.advantage import AlignedReturns, CounterfactualGain, NormalizeEach, TeamBaseline
from tests.batches import sampled


def test_each_reward_is_normalised_before_they_are_added() -> None:
    """(0, 2) has mean 1 and unbiased std √2, (0, 20) mean 10 and std 10√2: both become ∓1/√2."""
    batch = sampled([0.0, 2.0], [0, 0], ["a"], size=torch.tensor([20.0, 0.0], dtype=torch.float64))
    part = NormalizeEach(of=(("rollout.reward", 1.0), ("rollout.size", 0.5)), epsilon=0.0)
    found = part(batch)["rollout.advantage"]
    assert found.tolist() == pytest.approx([-0.5 / math.sqrt(2), 0.5 / math.sqrt(2)])
    alone = part.replace(of=(("rollout.reward", 3.0),))(batch)["rollout.advantage"]
    assert alone.tolist() == pytest.approx([-3 / math.sqrt(2), 3 / math.sqrt(2)])
    three = part.replace(of=(("rollout.reward", 1.0), ("rollout.size", 0.5), ("rollout.reward", 2.0)))
    assert three(batch)["rollout.advantage"].tolist() == pytest.approx([-2.5 / math.sqrt(2), 2.5 / math.sqrt(2)])


def test_a_rewritten_rollout_is_credited_with_what_it_has_gained() -> None:
    rewritten, before = torch.tensor([False, False, True]), torch.tensor([0.0, 0.0, 0.25], dtype=torch.float64)
    batch = sampled([0.0, 2.0, 1.0], [0, 0, 0], ["a"], rewritten=rewritten, reward_before=before)
    found = CounterfactualGain(epsilon=0.0)(batch)["rollout.advantage"]
    assert found.tolist() == pytest.approx([-1.0, 1.0, 0.75])  # mean 1, std 1


def team(*episodes: list[tuple[str, str, float]]) -> Batch:
    """Episodes of turns (team, agent, reward), all of one task."""
    rollouts = [
        Rollout("a", [Turn([0], columns={"role": r, "agent": a, "reward": x}) for r, a, x in turns], 0)
        for turns in episodes
    ]
    return Batch.from_rollouts(rollouts, dtype=torch.float64)


def test_the_advantages_of_a_team_have_a_mean_of_0_and_a_std_of_1() -> None:
    """Of two defenders the first acts twice, and counts once: returns 3, 1 and 2 with the mean 2 and the std 1."""
    batch = team(
        [("defence", "one", 1.0), ("defence", "one", 2.0), ("defence", "two", 1.0)],
        [("defence", "two", 2.0), ("attack", "foe", 5.0)],
    )
    plain = TeamBaseline(scaled=False)(batch)
    assert plain["turn.return"].tolist() == [3.0, 3.0, 1.0, 2.0, 5.0]
    assert plain["turn.baseline"].tolist() == pytest.approx([2.0, 2.0, 2.0, 2.0, 5.0])
    assert plain["turn.advantage"].tolist() == pytest.approx([1.0, 1.0, -1.0, 0.0, 0.0])
    scaled = TeamBaseline(epsilon=1.0)(batch)["turn.advantage"]
    assert scaled.tolist() == pytest.approx([0.5, 0.5, -0.5, 0.0, 0.0])  # divided by 1 + ε
    alone = TeamBaseline(epsilon=0.0)(batch)["turn.advantage"]
    assert alone.tolist() == pytest.approx([1.0, 1.0, -1.0, 0.0, 0.0])  # a team of one has no spread


def test_advantages_of_teams_are_centred_over_the_tasks_of_a_batch() -> None:
    """Groups are centred one by one; a task with more agents than another does not shift the mean of a team."""
    first = [Rollout("a", [Turn([0], columns={"role": "r", "agent": "x", "reward": x})], 0) for x in (0.0, 2.0)]
    second = [Rollout("b", [Turn([0], columns={"role": "r", "agent": "x", "reward": x})], 1) for x in (5.0, 9.0)]
    found = TeamBaseline(epsilon=0.0)(Batch.from_rollouts(first + second, dtype=torch.float64))
    std = math.sqrt((1 + 1 + 4 + 4) / 3)
    assert found["turn.advantage"].tolist() == pytest.approx([-1 / std, 1 / std, -2 / std, 2 / std])


def test_both_agents_can_be_paid_the_sum_of_their_rewards() -> None:
    """Two rollouts of one round: (1, 2) and (0, 0). Sums 3 and 0, each less the other's: ±3 for both agents."""
    rollouts = [
        Rollout("a", [Turn([0], columns={"agent": agent, "reward": x}) for agent, x in zip("xy", pay, strict=True)], 0)
        for pay in ((1.0, 2.0), (0.0, 0.0))
    ]
    batch = Batch.from_rollouts(rollouts, dtype=torch.float64)
    shared = AlignedReturns(beta=0.0, reward="sum")(batch)
    assert shared["turn.advantage"].tolist() == pytest.approx([3.0, 3.0, -3.0, -3.0])
    own = AlignedReturns(beta=0.0)(batch)
    assert own["turn.advantage"].tolist() == pytest.approx([1.0, 2.0, -1.0, -2.0])
    assert own["turn.centred.own"].tolist() == pytest.approx([1.0, 2.0, -1.0, -2.0])
    assert own["turn.centred.other"].tolist() == pytest.approx([2.0, 1.0, -2.0, -1.0])
