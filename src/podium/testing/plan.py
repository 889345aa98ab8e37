"""What an update plan owes its batch."""

from __future__ import annotations

import torch

from podium.core.updates import Updates
from podium.testing.bench import Bench
from podium.testing.subject import with_row_numbers

__all__ = ["updates_see_every_trained_rollout"]


def updates_see_every_trained_rollout(part: Updates, bench: Bench) -> str | None:
    """Each trained token once a pass, nobody more often, and no unit without one of its trained rollouts."""
    for _, batch in bench.accepted(part):
        batch = batch.with_columns({"token.number": torch.arange(batch.size("token"))})
        trained, rollouts = batch.trained("token"), batch.trained("rollout", empty=True)
        times = torch.zeros(batch.size("token"), dtype=torch.long)
        for step in part(with_row_numbers(batch)):
            times += torch.bincount(step["token.number"][step.trained("token")], minlength=len(times))
            present = torch.zeros(len(batch), dtype=torch.bool).index_fill(0, step["rollout.row"], True)
            touched = batch.spread(batch.partition("rollout", part.unit).agg.any(present), part.unit, "rollout")
            if bool((touched & rollouts & ~present).any()):
                return f"splits a {part.unit} between steps"
        wrong = times != part.passes * trained.long()
        if bool(wrong.any()):
            return f"trains a token {int(times[wrong][0])} times in {part.passes} passes"
    return None
