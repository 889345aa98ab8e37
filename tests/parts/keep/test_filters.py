"""What is dropped, by numbers worked out by hand."""

from __future__ import annotations

import torch

from podium.core.batch import Batch
from podium.parts.keep import Bundle, DropMarked, KeepVaried, KeepWithin
from tests.batches import sampled


def test_groups_within_the_bounds_stay() -> None:
    batch = sampled([0.0, 0.0, 1.0, 0.0, 1.0, 1.0, 1.0, 1.0], [0, 0, 1, 1, 2, 2, 2, 2], "abc")
    assert KeepWithin()(batch)["group.keep"].tolist() == [False, True, False]
    # The bounds themselves are outside: the means are 0, ½ and 1.
    assert KeepWithin(low=0.5, high=0.9)(batch)["group.keep"].tolist() == [False, False, False]
    assert KeepWithin(low=0.1, high=0.5)(batch)["group.keep"].tolist() == [False, False, False]
    assert KeepWithin(low=-1.0, high=2.0)(batch)["group.keep"].tolist() == [True, True, True]


def test_marked_rollouts_go() -> None:
    batch = sampled([0.0, 0.0], [0, 0], "a", degenerate=torch.tensor([True, False]))
    assert DropMarked()(batch)["rollout.keep.marked"].tolist() == [False, True]


def test_the_share_of_varied_groups_is_rounded_up() -> None:
    batch = sampled([0.0, 0.0, 0.0, 1.0, 0.0, 4.0, 0.0, 2.0], [0, 0, 1, 1, 2, 2, 3, 3], "abcd")
    assert KeepVaried(share=0.5)(batch)["group.keep"].tolist() == [False, False, True, True]
    assert KeepVaried(share=0.6)(batch)["group.keep"].tolist() == [False, True, True, True]


def test_bundles_are_nearly_equal_and_few_groups_are_one() -> None:
    def sizes(groups: int) -> list[int]:
        bundle = Bundle(size=5)(Batch.from_rewards([0.0] * groups, list(range(groups)), {}))["group.bundle"]
        return sorted(bundle.bincount().tolist())

    assert sizes(2) == [2]
    assert sizes(10) == [5, 5]
    assert sizes(8) == [4, 4]  # 8 / 5 rounds to two
