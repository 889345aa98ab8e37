"""Rewards for pure evidence, by hand."""

from __future__ import annotations

import math

import pytest
import torch

from podium.core.batch import Batch
from podium.parts.annotate import EvidenceOverlap
from podium.parts.metric import EvidenceCoverage
from podium.parts.reward import EvidencePurity


def picks(*rows: tuple[tuple[int, ...], tuple[int, ...], bool]) -> Batch:
    picked, evidence, correct = zip(*rows, strict=True)
    columns = {"rollout.picked": picked, "rollout.evidence": evidence, "rollout.correct": torch.tensor(correct)}
    return Batch.from_rewards(torch.zeros(len(rows), dtype=torch.float64), [0] * len(rows), columns)


def paid(batch: Batch, part: EvidencePurity) -> list[float]:
    batch = batch.with_columns(EvidenceOverlap()(batch))
    rewards: list[float] = part(batch)["rollout.reward"].tolist()
    return rewards


GOLD = (2, 3, 4)


def test_the_worked_example_of_late_training() -> None:
    batch = picks(((1, 2, 3), GOLD, True), ((2, 3), GOLD, True), ((), GOLD, True), ((7,), GOLD, False))
    rewards = paid(batch, EvidencePurity(action=0.05, relevance=0.5))
    assert rewards == pytest.approx([1.3, 1.05 + 1 / 3, 0.5, -0.95])


def test_a_superfluous_pick_and_a_missing_one_both_cost() -> None:
    pure, broad, narrow = paid(
        picks((GOLD, GOLD, True), ((1, *GOLD), GOLD, True), ((2, 3), GOLD, True)), EvidencePurity()
    )
    assert pure > broad
    assert pure > narrow


def test_a_repeated_pick_counts_once_and_nothing_picked_of_nothing_is_no_overlap() -> None:
    found = EvidenceOverlap()(picks(((2, 2, 3), (2, 3), True), ((), (), False)))
    assert found["rollout.overlap"].tolist() == [1.0, 0.0]
    assert found["rollout.looked"].tolist() == [1.0, 0.0]


def test_without_weights_and_condition_it_is_the_outcome() -> None:
    batch = picks(((7,), GOLD, True), ((), GOLD, True), (GOLD, GOLD, False))
    assert paid(batch, EvidencePurity(threshold=0.0, action=0.0, relevance=0.0)) == [1.0, 1.0, -1.0]


def test_no_wrong_answer_earns_more_than_a_right_one() -> None:
    wrong, right = paid(picks((GOLD, GOLD, False), ((), GOLD, True)), EvidencePurity(action=0.2, relevance=0.5))
    assert wrong < right


def test_information_is_that_of_a_coin_where_answers_follow_the_evidence_and_none_where_they_do_not() -> None:
    follows = picks((GOLD, GOLD, True), ((7,), GOLD, False))
    apart = picks(*((picked, GOLD, right) for picked in (GOLD, (7,)) for right in (True, False)))
    metric = EvidenceCoverage()
    assert float(metric(follows)["batch.coverage_information"]) == pytest.approx(float(torch.tensor(2.0).log()))
    assert float(metric(apart)["batch.coverage_information"]) == pytest.approx(0.0, abs=1e-12)
    assert float(metric(apart)["batch.coverage"]) == 0.5


def test_what_right_answers_say_of_the_evidence_is_counted_in_nats() -> None:
    """Two of four have seen all, and one of these and one of the others is wrong: nothing. All of one kind: ln 2."""
    everything, nothing = (GOLD, GOLD), ((), GOLD)
    apart = picks((*everything, True), (*everything, False), (*nothing, True), (*nothing, False))
    assert float(EvidenceCoverage()(apart)["batch.coverage_information"]) == pytest.approx(0.0)
    assert float(EvidenceCoverage()(apart)["batch.coverage"]) == pytest.approx(0.5)
    tied = picks((*everything, True), (*everything, True), (*nothing, False), (*nothing, False))
    assert float(EvidenceCoverage()(tied)["batch.coverage_information"]) == pytest.approx(math.log(2))
    # One of four has seen all, and is right; so is one of the others.
    some = picks((*everything, True), (*nothing, True), (*nothing, False), (*nothing, False))
    expected = 0.25 * math.log(2) + 0.25 * math.log(2 / 3) + 0.5 * math.log(4 / 3)
    assert float(EvidenceCoverage()(some)["batch.coverage_information"]) == pytest.approx(expected)
