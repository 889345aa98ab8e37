"""Dynamic sampling: further rounds in place of dropped groups, and groups that are carried over to the next batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import torch

from podium.core.batch import Batch
from podium.core.errors import PodiumError
from podium.core.part import Keep
from podium.method import Method
from podium.training.metrics import Metrics
from podium.training.replay import with_behaviour_policy
from podium.training.run import Run

__all__ = ["collect_until_full", "take_oldest", "top_up_part"]

Item = TypeVar("Item")


def top_up_part(method: Method) -> Keep | None:
    """The keep part that asks for more rollouts in place of those it drops; None: a batch is one round."""
    return next((part for part in method.keep if part.top_up), None)


def collect_until_full(
    run: Run, method: Method, metrics: Metrics, collect_round: Callable[[Run, Method, Metrics], Batch]
) -> Batch:
    """Collect until as many groups are kept as the batch has tasks, or the part's rounds are used up."""
    part = top_up_part(method)
    assert part is not None
    wanted, rounds = run.config.tasks, 0
    kept = run.memories.carried_over(method) if part.carry_over else []
    while True:
        batch = collect_round(run, method, metrics)
        rounds += 1
        metrics.put("rounds", rounds)
        chosen = batch.get("group.keep")
        if chosen is None:
            return batch
        metrics.count_dropped(*run.drop(batch, ~chosen))
        if bool(chosen.any()):
            fresh = batch.take("group", chosen)
            kept.append(with_behaviour_policy(run.trainer, fresh, run.iteration) if part.carry_over else fresh)
        if sum(groups.size("group") for groups in kept) >= wanted or rounds == (part.max_rounds or -1):
            break
    if not kept:
        raise PodiumError(
            f"After {rounds} rounds no group carries a signal: every answer to a task gets the same reward. "
            "Choose an easier or a harder level, or a method that learns from such groups."
        )
    return _first_groups(run, method, metrics, Batch.concat(kept), part.carry_over)


def _first_groups(run: Run, method: Method, metrics: Metrics, groups: Batch, carry_over: bool) -> Batch:
    """The groups that fill the batch, the oldest first; the others are carried over to the next one or dropped."""
    wanted = run.config.tasks
    taken, left = take_oldest(range(groups.size("group")), wanted, fewer=True)
    if carry_over:
        metrics.put("groups.waiting", len(left))
        surplus = groups.take("group", torch.tensor(left, device=groups.device)) if left else None
        run.memories.carry_over(method, surplus, run.iteration, extra_tasks=run.drawn - wanted)
    elif left:
        metrics.count_dropped(*run.drop(groups, torch.arange(groups.size("group"), device=groups.device) >= wanted))
    return groups.take("group", torch.tensor(taken, device=groups.device))


def take_oldest(
    items: Sequence[Item], wanted: int, *, fewer: bool = False
) -> tuple[Sequence[Item] | None, Sequence[Item]]:
    """The first `wanted` items and the rest; None and all of them while there are too few, unless `fewer` will do."""
    if len(items) < wanted and not fewer:
        return None, items
    return items[:wanted], items[wanted:]
