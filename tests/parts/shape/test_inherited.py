"""Advantages that rollouts inherit."""

from __future__ import annotations

import torch

from podium.core.batch import Batch
from podium.core.columns import Purpose
from podium.parts.shape import FromParent


def test_demonstrations_take_the_advantage_of_their_parent() -> None:
    purposes = [Purpose.train, Purpose.train, Purpose.demo, Purpose.demo, Purpose.demo, Purpose.replaced]
    columns = {
        "rollout.index": torch.tensor([0, 3, 6, 7, 8, 1]),
        "rollout.parent": torch.tensor([-1, 0, 3, 0, 5, -1]),
        "rollout.purpose": torch.tensor([int(p) for p in purposes]),
        "rollout.advantage": torch.tensor([1.0, -2.0, 9.0, 9.0, 9.0, 0.5]),
    }
    batch = Batch.from_rewards(torch.zeros(6), ["task"] * 6, columns)
    # The second has a parent but is no demonstration; the parent of the fifth is not there.
    assert FromParent()(batch)["rollout.advantage"].tolist() == [1.0, -2.0, -2.0, 1.0, 9.0, 0.5]
