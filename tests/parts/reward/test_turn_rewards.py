"""Rewards of turns, tools, judges and the policy's own votes, by numbers worked out by hand."""

from __future__ import annotations

import pytest
import torch

from podium.core.batch import Batch
from podium.core.build import Rollout, Turn
from podium.parts.reward import (
    GatedMix,
    HierarchicalReward,
    KnowledgeBoundary,
    MagnifySuccess,
    ProgressReward,
    SelfAgreement,
    TriedTools,
    TurnPenalties,
    VerdictReward,
)
from tests.batches import sampled


def numbers(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def turns(**columns: list[object]) -> Batch:
    count = len(next(iter(columns.values())))
    rows = [Turn([0], columns={name: values[i] for name, values in columns.items()}) for i in range(count)]
    return Batch.from_rollouts([Rollout("a", rows, columns={"reward": 0.0})], dtype=torch.float64)


def test_invalid_and_overlong_turns_are_charged() -> None:
    batch = turns(valid=[True, False, True, False], truncated=[False, False, True, True])
    found = TurnPenalties(invalid=0.1, overlong=0.25)(batch)["turn.reward.penalty"]
    assert found.tolist() == pytest.approx([0.0, 0.1, 0.25, 0.35])
    plain = TurnPenalties(invalid=0.1)(batch)["turn.reward.penalty"]
    assert plain.tolist() == pytest.approx([0.0, 0.1, 0.0, 0.1])


def test_a_step_that_comes_nearer_earns_one() -> None:
    batch = turns(progress=[-0.5, 0.0, 0.25, 0.5])
    assert ProgressReward()(batch)["step.reward"].tolist() == [0.0, 0.0, 1.0, 1.0]
    assert ProgressReward(above=0.25)(batch)["step.reward"].tolist() == [0.0, 0.0, 0.0, 1.0]


def test_full_successes_are_magnified() -> None:
    found = MagnifySuccess(bonus=3.0, share=0.5)(sampled([0.0, 0.5, 1.0, 2.0], [0] * 4, ["a"]))
    assert found["rollout.reward"].tolist() == [0.0, 0.25, 3.5, 4.0]
    assert found["rollout.reward.success"].tolist() == [0.0, 0.0, 3.0, 3.0]


def test_a_wrong_answer_earns_a_little_for_each_call() -> None:
    batch = sampled([1.0, 0.0, 0.0, 0.0], [0] * 4, ["a"], messages=numbers(8, 2, 6, 20))
    found = TriedTools(step=0.1, cap=-0.6)(batch)
    assert found["rollout.reward"].tolist() == pytest.approx([1.0, -1.0, -0.8, -0.6])
    assert found["rollout.reward.tried"].tolist() == pytest.approx([0.0, 0.0, 0.2, 0.4])


def test_a_verdict_above_the_threshold_is_a_success() -> None:
    batch = sampled([0.0] * 3, [0] * 3, ["a"], **{"rollout.judged.score": numbers(0.25, 0.5, 0.75)})
    assert VerdictReward()(batch)["rollout.reward"].tolist() == [0.0, 0.0, 1.0]
    assert VerdictReward(above=0.25)(batch)["rollout.reward.verdict"].tolist() == [0.0, 1.0, 1.0]


def test_a_right_answer_earns_more_where_it_ends_by_itself_or_has_the_format() -> None:
    batch = sampled([1.0, 1.0, 0.0], [0] * 3, ["a"], truncated=numbers(0, 1, 0), tidy=numbers(0, 1, 1))
    assert HierarchicalReward()(batch)["rollout.reward"].tolist() == [2.0, 1.0, -1.0]
    assert HierarchicalReward(formatted="rollout.tidy")(batch)["rollout.reward"].tolist() == [1.0, 2.0, -1.0]


def test_what_searches_add_to_a_right_answer_is_reported() -> None:
    flags = {"matched": torch.tensor([True, True, False, False]), "formed": torch.tensor([True, True, True, False])}
    batch = sampled([0.0] * 4, [0] * 4, ["a"], searches=numbers(0, 1, 2, 2), **flags)
    found = KnowledgeBoundary(plus=0.6, minus=0.05, most=3)(batch)
    assert found["rollout.reward"].tolist() == pytest.approx([1.6, 1.4, 0.05, -1.0])
    assert found["rollout.reward.boundary"].tolist() == pytest.approx([0.6, 0.4, 0.05, -1.0])


def test_a_vote_is_right_where_it_is_that_of_the_majority() -> None:
    columns = {
        "declared": torch.tensor([1.0, 0.0]),
        "vote": torch.tensor([True, False]),
        "rollout.votes.feasible": numbers(6, 6),
        "rollout.votes.infeasible": numbers(2, 2),
        "rollout.votes.total": numbers(8, 8),
    }
    batch = sampled([0.0, 0.0], [0, 0], ["a"], **columns)
    assert SelfAgreement(of="vote")(batch)["rollout.reward"].tolist() == [1.0, 0.0]
    assert SelfAgreement()(batch)["rollout.reward"].tolist() == [0.75, 0.25]
    assert SelfAgreement(of="consensus")(batch)["rollout.reward"].tolist() == [0.75, 0.75]


def test_scores_are_shares_of_the_best_of_their_group_where_there_is_one() -> None:
    batch = sampled([1.0, 1.0, 1.0, 0.0], [0, 0, 1, 1], ["a", "b"], rubric=numbers(0.25, 0.5, 0.0, 0.0))
    found = GatedMix(weight=0.5)(batch)["rollout.reward"]
    assert found.tolist() == pytest.approx([0.75, 1.0, 0.5, 0.0])
