"""Metrics of labels, directions, searches and self-knowledge, by numbers worked out by hand."""

from __future__ import annotations

import pytest
import torch

from podium.parts.metric import LabelAUC, NeedlessSearches, SelfKnowledge, Steering
from tests.batches import sampled


def numbers(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def test_how_often_a_clean_pair_has_the_higher_label() -> None:
    def auc(labels: list[float], flipped: list[bool]) -> float:
        groups = list(range(len(labels)))
        columns = {"group.label": numbers(*labels), "flipped": torch.tensor(flipped)}
        return float(LabelAUC()(sampled([0.0] * len(labels), groups, groups, **columns))["batch.label_auc"])

    assert auc([0.9, 0.6, 0.3], [False, False, True]) == 1.0
    assert auc([0.9, 0.2, 0.3], [False, False, True]) == 0.5  # one of two is ahead
    assert auc([0.9, 0.3, 0.3], [False, False, True]) == 0.75  # ties count half
    assert auc([0.1, 0.2, 0.3, 0.4], [False, False, True, True]) == 0.0
    assert auc([0.9, 0.6], [False, False]) == 0.5


def test_more_weight_brings_more_of_a_score() -> None:
    def steering(angles: list[float], seconds: list[float], groups: list[int], probes: tuple[int, ...] = ()) -> float:
        scores = torch.stack([torch.zeros(len(seconds)).double(), numbers(*seconds)], 1)
        columns = {"angle": numbers(*angles), "scores": scores}
        batch = sampled([0.0] * len(seconds), groups, sorted(set(groups)), probes, **columns)
        return float(Steering()(batch)["batch.steering"])

    assert steering([-30, 0, 30], [1, 2, 3], [0, 1, 2]) == pytest.approx(1.0)
    assert steering([-30, 0, 30], [3, 2, 1], [0, 1, 2]) == pytest.approx(-1.0)
    # Means of groups: 2, 2.5 and 1.5; ranks 1, 2, 0 against 0, 1, 2.
    assert steering([-30, -30, 0, 0, 30], [1, 3, 2, 3, 1.5], [0, 0, 1, 1, 2]) == pytest.approx(-0.5)
    # A group of probes alone is left out.
    assert steering([-30, 0, 30], [1, 2, 0], [0, 1, 2], probes=(2,)) == pytest.approx(1.0)


def test_searches_too_many_and_too_few_are_counted_apart() -> None:
    columns = {"searches": numbers(4, 1, 0), "evidence": [("a",), ("a", "b", "c"), ()]}
    found = NeedlessSearches()(sampled([0.0] * 3, [0] * 3, ["a"], **columns))
    assert found["batch.needless"].tolist() == pytest.approx([1.0])  # 3, 0 and 0
    assert found["batch.unsearched"].tolist() == pytest.approx([2 / 3])  # 0, 2 and 0


def test_what_a_policy_knows_about_what_it_can_do() -> None:
    columns = {
        "declared": numbers(1, 1, 0, 0),
        "majority": numbers(1, 0, 0, 0),
        "consensus": numbers(1.0, 0.75, 0.5, 0.75),
        "distinct": numbers(1, 1, 0, 1),
        "rollout.votes.feasible": numbers(8, 2, 4, 0),
        "rollout.votes.total": numbers(8, 8, 8, 4),
        "rollout.able.claim": numbers(0.75, 0.75, 0.5, 0.25),
        "rollout.able.rate": numbers(0.5, 0.5, 0.75, 0.25),
    }
    batch = sampled([0.0] * 4, [0, 0, 1, 2], ["a", "b", "c"], **columns)
    found = {name: float(value) for name, value in SelfKnowledge()(batch).items()}
    assert found["batch.self.intrinsic"] == 0.75
    assert found["batch.self.consensus"] == 0.75
    assert found["batch.self.distinct"] == 0.75
    assert found["batch.self.feasible"] == 0.5  # 14 of 28
    assert found["batch.self.auc"] == 1.0  # both that can be done are claimed more than the third
    assert found["batch.self.f1"] == 1.0
    # Without the second task: claims of 3/4 and 1/4 for one that can be done and one that cannot.
    fewer = SelfKnowledge()(sampled([0.0] * 4, [0, 0, 1, 2], ["a", "b", "c"], (2,), **columns))
    assert float(fewer["batch.self.f1"]) == 1.0
    changed = {**columns, "rollout.able.rate": numbers(0.25, 0.25, 0.75, 0.25)}
    other = SelfKnowledge()(sampled([0.0] * 4, [0, 0, 1, 2], ["a", "b", "c"], **changed))
    assert float(other["batch.self.auc"]) == 0.5  # behind the first, ahead of the third
    assert float(other["batch.self.f1"]) == pytest.approx(2 / 3)  # two are claimed, one can be done
    assert "batch.self.auc" not in SelfKnowledge(measured=False)(batch)
