"""DLER: a hard limit of the length, and an optimisation that can bear it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

from podium import methods
from podium.core.batch import Batch
from podium.core.errors import PodiumError
from podium.core.shares import scaled
from podium.parts.reward import LengthLimit
from podium.policy.model.merge import merge_largest, merge_weights
from tests.conformance.helpers import credited
from tests.methods.support import rewards, short_run


def tokens(reward: list[float], lengths: list[int], group: list[int]) -> Batch:
    mask = (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]).double()
    columns = {"rollout.reward": torch.tensor(reward).double(), "rollout.truncated": torch.zeros(len(reward)).bool()}
    return Batch.from_padded(mask, group, columns)


def test_dler_worked_example() -> None:
    batch = credited(methods.dler(limits=(4000,)), tokens([1, 0, 1, 0], [2, 4, 3, 4], [0] * 4))
    assert batch.to_padded(batch["token.advantage"])[:, 0].tolist() == pytest.approx(
        [1.215287, -0.759555, 1.215287, -0.759555], abs=1e-6
    )


def test_dler_tokens_have_mean_0_and_variance_1_and_keep_the_proportion_of_centred_rewards() -> None:
    batch = tokens([1, 0, 0, 0, 1, 1, 0, 0], [2, 4, 3, 4, 5, 1, 2, 3], [0] * 4 + [1] * 4)
    a = credited(methods.dler(limits=(4000,)), batch)["token.advantage"]
    assert (float(a.mean()), float(a.var())) == pytest.approx((0, 1), abs=1e-6)
    rows = batch.reduce(a, "token", "rollout", "mean")
    centred = credited(methods.dr_grpo(), batch)["rollout.advantage"]
    slope = (rows - rows[0]) / (centred - centred[0]).where(centred != centred[0], 1)
    assert_close(slope[1:], slope[1].expand(7))  # one line through all groups; GRPO would bend it


def test_dler_order_within_a_group_follows_the_reward() -> None:
    batch = tokens([0.1, 0.7, 0.4], [9, 1, 1], [0] * 3)
    rows = batch.reduce(credited(methods.dler(limits=(4000,)), batch)["token.advantage"], "token", "rollout", "mean")
    assert rows.argsort().tolist() == [0, 2, 1]


def test_dler_answers_that_are_cut_off_or_too_long_earn_nothing_and_stay_in_the_loss() -> None:
    batch = rewards([1, 1, 1], rollout__length=[3, 9, 3], rollout__truncated=[False, False, True])
    found = LengthLimit((8,))(batch)
    assert found["rollout.reward"].tolist() == [1, 0, 0]
    assert not any(".keep" in name for name in found)


def test_dler_easy_tasks_have_less_room() -> None:
    (limit,) = scaled(methods.get("dler@difficulty-aware"), {"iterations": 1, "max_tokens": 8000}).reward
    assert limit.limit(torch.tensor([0.1, 0.4999, 0.5, 1.0])).tolist() == [4000, 4000, 2000, 2000]
    steps = LengthLimit((30, 20, 10), (0.3, 0.7))
    assert steps.limit(torch.tensor([0.0, 0.3, 0.7])).tolist() == [30, 20, 10]
    correct = [True, True, False, False, True, False, False, False]
    batch = rewards(
        [1, 1, 0, 0], [1, 0, 0, 0], rollout__length=[5] * 8, rollout__truncated=[False] * 8, rollout__correct=correct
    )
    found = LengthLimit((8, 4), (0.5,))(batch)
    assert found["group.length_limit"].tolist() == [4, 8]
    assert found["rollout.reward"].tolist() == [0, 0, 0, 0, 1, 0, 0, 0]


def test_dler_limits_must_fit_the_thresholds() -> None:
    with pytest.raises(PodiumError, match="one limit more"):
        LengthLimit((4000,), (0.5,))


def test_merging_keeps_the_largest_changes_and_scales_them() -> None:
    base, tuned = torch.zeros(2, 4), torch.tensor([[1.0, -8, 2, 3], [4, 5, -7, 6]])
    assert merge_largest(base, tuned).flatten().tolist() == pytest.approx([0, -5.6, 0, 0, 0, 0, -4.9, 0])
    assert_close(merge_largest(base, tuned, keep=1.0, scale=1.0), tuned)
    assert float(merge_largest(torch.zeros(2), torch.tensor([0.1, 0.2]))[1]) == pytest.approx(0.14)  # at least one
    alike = merge_largest(torch.zeros(4), torch.tensor([0.1, -0.2, 0.2, 0.2]), keep=0.5, scale=1.0)
    assert alike.tolist() == pytest.approx([0.0, -0.2, 0.2, 0.0])  # of equal ones the first
    assert_close(merge_weights({"w": base}, {"w": tuned})["w"], merge_largest(base, tuned))
    with pytest.raises(PodiumError, match="different weights: v, w"):
        merge_weights({"w": base}, {"v": base})


def test_dler_trains_and_a_short_limit_bites(tmp_path: Path) -> None:
    line = short_run(methods.dler(n=6, limits=(18,)), tmp_path / "run").metrics[-1]
    assert line["length_limit"] == 18
    assert line["grad_norm.policy"] > 0
    aware = methods.get("dler@difficulty-aware", n=6, limits=(30, 15))
    limits = {line["length_limit"] for line in short_run(aware, tmp_path / "aware").metrics[1:]}
    assert limits - {30.0}
