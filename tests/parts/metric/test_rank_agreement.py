"""Rank correlation with a known truth, by hand."""

from __future__ import annotations

import math

import pytest
import torch

from podium.core.batch import Batch
from podium.core.columns import Purpose
from podium.parts.metric import RankAgreement


def agreement(
    reward: list[float], quality: list[float], group: list[int], purpose: list[int] | None = None
) -> list[float]:
    columns = {"rollout.quality": torch.tensor(quality, dtype=torch.float32)}
    if purpose is not None:
        columns["rollout.purpose"] = torch.tensor(purpose)
    batch = Batch.from_rewards([float(r) for r in reward], group, columns)
    found: list[float] = RankAgreement("rollout.reward").by_group(batch).tolist()
    return found


def test_groups_are_ranked_each_by_itself() -> None:
    # One swap of neighbours among four: 1 − 6 · 2 / (4 · 15) = 0.8; the other group is reversed.
    found = agreement([1, 2, 3, 4, 5, 6], [1, 3, 2, 4, 9, 7], [0, 0, 0, 0, 1, 1])
    assert found == pytest.approx([0.8, -1.0])


def test_equal_values_share_the_mean_of_their_ranks() -> None:
    # Centred ranks (−½, −½, 1) and (−1, 0, 1).
    assert agreement([1, 1, 2], [1, 2, 3], [0, 0, 0]) == pytest.approx([1.5 / math.sqrt(1.5 * 2)])


def test_a_judge_without_an_opinion_counts_as_0_and_an_even_group_not_at_all() -> None:
    reward, quality, group = [1.0, 1.0, 1.0, 2.0, 1.0, 2.0], [1.0, 2.0, 3.0, 3.0, 1.0, 2.0], [0, 0, 1, 1, 2, 2]
    first, second, third = agreement(reward, quality, group)
    assert first == 0.0
    assert math.isnan(second)
    assert third == pytest.approx(1.0)
    batch = Batch.from_rewards(reward, group, {"rollout.quality": torch.tensor(quality)})
    assert RankAgreement("rollout.reward")(batch)["batch.rank_agreement"].tolist() == pytest.approx([0.5])


def test_rollouts_that_do_not_count_are_not_ranked() -> None:
    purpose = [Purpose.train, Purpose.train, Purpose.probe]
    assert agreement([1, 2, 0], [1, 2, 9], [0, 0, 0], purpose) == pytest.approx([1.0])
