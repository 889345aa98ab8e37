"""The training loop. One iteration is one page."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from podium.core.batch import Batch
from podium.core.errors import PodiumError
from podium.core.gradient import now_signals
from podium.core.part import Metric, Shape
from podium.core.signal import Signal
from podium.method import Method
from podium.training.metrics import Metrics
from podium.training.queue import take_oldest
from podium.training.run import Run
from podium.training.sentinel import Sentinel

__all__ = ["iterate"]

OLD, NOW = Signal("logp", of="old"), Signal("logp", of="now")
LOOKED_AT = 4  # rollouts that are scored for the sentinel's sake


def iterate(run: Run) -> tuple[Batch, Mapping[str, Any]]:
    """One iteration: collect, reward, keep, credit, update, remember. Returns the batch and its metrics."""
    method, metrics, begun = run.begin(), Metrics(), time.monotonic()
    spent = run.driver.spent
    batch = _gather(run, method, metrics)
    metrics.time("sample", begun)
    metrics.spent(spent, run.driver.spent)

    fixed, live = [p for p in method.shape if not p.live], _live(method)
    watched = [p for p in method.metric if p not in live]
    batch = run.apply([*([method.advantage] if method.advantage else []), *fixed], batch)
    batch = run.apply(watched, batch)
    metrics.describe(batch)
    metrics.report(batch, watched)

    plan, again = method.updates, run.memories.replayed(method, batch, run.iteration)
    trained = run.trainer.provide(batch if again is None else again, _before_updates(method, live))
    begun = time.monotonic()
    watch = Sentinel(method, run.iteration, run.config.gap_allowed)
    watch.look(run.policy)
    if all(signal.column != NOW.column for signal in now_signals([*method.objective, *live])):
        _score(run, watch, batch)
    for number, update in enumerate(plan(trained, run.trainer.current)):
        seen = None if number else watch.see  # at the first update the weights are those that sampled
        metrics.add(*run.trainer.step(update, method.objective, live, plan.skip_above, seen))
    if watch.count:
        metrics.put("sampler_gap", watch.gap)
    metrics.time("train", begun)

    batch = trained if again is None else metrics.replayed(batch, trained)
    batch = run.memories.observe(method, batch, run.dropped)
    metrics.wrote(batch, (*method.parts(), *method.memories))
    run.end(int(metrics.values["tokens"]))
    return batch, metrics.line(run.iteration)


def _live(method: Method) -> list[Shape | Metric]:
    """What is evaluated at each update: the parts that read the current policy, and metrics of what they write."""
    shapes = [p for p in method.shape if p.live]
    late = {column for part in shapes for column in part.provides}
    return [*shapes, *(m for m in method.metric if m.live or late & {n for n in m.needs if isinstance(n, str)})]


def _before_updates(method: Method, live: Sequence[Shape | Metric]) -> list[Signal]:
    """The signals that the updates and the memories read and that must be computed before the weights move."""
    readers = (*method.objective, *live, *method.memories)
    needed = [n for reader in readers for n in reader.needs if isinstance(n, Signal)]
    if method.updates.single:
        # At the only update of a batch the old policy is the current one: its signals come with the update.
        own = [n for part in (*method.objective, *live) for n in part.needs if isinstance(n, Signal) and n.of == "now"]
        coming = {Signal(s.name, of="old", level=s.level, **dict(s.settings)) for s in own}
        later = {n for memory in method.memories for n in memory.needs}
        needed = [s for s in needed if s not in coming or s in later]
    return [s for s in needed if s.of != "now"]


def _gather(run: Run, method: Method, metrics: Metrics) -> Batch:
    """Sample, reward and keep, until there are enough groups that carry a signal or no more rounds."""
    wanted, rounds = run.config.tasks, 0
    top_up = next((k for k in method.keep if k.top_up), None)
    carry = top_up is not None and top_up.carry_over
    kept = run.memories.waiting(method) if carry else []
    while True:
        rollouts = run.collect(method, run.requests(method, wanted))
        batch = Batch.from_rollouts(rollouts, seed=run.config.seed * 1_000_003 + run.iteration)
        metrics.sampled(batch)
        batch = run.apply(method.annotate, run.memories.of_batch(method, batch))
        batch = run.apply(method.reward, batch)
        batch = run.apply(method.keep, batch)
        rounds += 1
        if top_up is not None:
            metrics.put("rounds", rounds)
        chosen = batch.get("group.keep")
        if chosen is None:
            return batch
        metrics.dropped(*run.drop(batch, ~chosen))
        if bool(chosen.any()):
            fresh = batch.take("group", chosen)
            kept.append(run.memories.dated(fresh, run.iteration) if carry else fresh)
        if sum(b.size("group") for b in kept) >= wanted or top_up is None or rounds == (top_up.max_rounds or -1):
            break
    if not kept and top_up is None:
        run.dropped.clear()
        return batch  # none of its groups is to be trained: an iteration without an update
    if not kept:
        raise PodiumError(
            f"After {rounds} rounds no group carries a signal: every answer to a task gets the same reward. "
            "Choose an easier or a harder level, or a method that learns from such groups."
        )
    joined = Batch.concat(kept)
    if top_up is None:
        return joined  # a strategy may make several groups of a task
    taken, left = take_oldest(range(joined.size("group")), wanted, fewer=True)
    if carry:
        metrics.put("groups.waiting", len(left))
        over = joined.take("group", torch.tensor(left, device=joined.device)) if left else None
        run.memories.wait(method, over, run.iteration, beyond=run.drawn - wanted)
    elif left:
        metrics.dropped(*run.drop(joined, torch.arange(joined.size("group"), device=joined.device) >= wanted))
    return joined.take("group", torch.tensor(taken, device=joined.device))


def _score(run: Run, watch: Sentinel, batch: Batch) -> None:
    """Let the sentinel see a few rollouts where no update would show it any."""
    chosen = watch.sampled(batch).nonzero().reshape(-1)[:LOOKED_AT]
    if len(chosen) and not watch.blind:
        few = batch.take("rollout", chosen).without([OLD])
        watch.see(few, run.trainer.provide(few, [OLD])[OLD])
