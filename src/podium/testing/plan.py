"""What an update plan owes its batch."""

from __future__ import annotations

import torch

from podium.objective.gradient import whole_groups
from podium.objective.updates import Updates
from podium.testing.bench import Bench
from podium.testing.subject import numbered

__all__ = ["updates_see_every_trained_rollout"]


def updates_see_every_trained_rollout(part: Updates, bench: Bench) -> str | None:
    """Each trained rollout once an epoch, nobody more often, and no unit split between the steps of an epoch."""
    for _, batch in bench.accepted(part):
        steps = [mini_batch["rollout.row"] for mini_batch in part(numbered(batch))]
        times = torch.bincount(torch.cat(steps), minlength=len(batch))
        wrong = (times > part.epochs) | ((times < part.epochs) & batch.trained("rollout"))
        if bool(wrong.any()):
            return f"a rollout appears {int(times[wrong][0])} times in {part.epochs} epochs"
        for epoch in torch.arange(len(steps)).tensor_split(part.epochs):
            if part.unit == "group" and not whole_groups(batch, [steps[i] for i in epoch.tolist()]):
                return "splits a group between the steps of an epoch"
    return None
