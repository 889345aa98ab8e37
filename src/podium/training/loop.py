"""The training loop. One iteration is one page."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import torch

from podium.core.batch import Batch, Purpose
from podium.core.errors import PodiumError
from podium.core.method import Method
from podium.core.signal import Signal
from podium.rollout import Sample
from podium.training.metrics import Metrics
from podium.training.run import Run

__all__ = ["iterate", "sentinel"]

SAMPLED, OLD = Signal("logp", of="sampler"), Signal("logp", of="old")


def iterate(run: Run) -> tuple[Batch, Mapping[str, Any]]:
    """One iteration: collect, reward, keep, credit, update, remember. Returns the batch and its metrics."""
    method, metrics, begun = run.config.method.at(run.clock), Metrics(), time.monotonic()
    run.drawn = 0
    batch = _gather(run, method, metrics)
    metrics.time("sample", begun)
    sentinel(run, batch, metrics)

    live = [p for p in method.shape if p.live]
    fixed = [p for p in method.shape if not p.live]
    batch = run.apply([*([method.advantage] if method.advantage else []), *fixed], batch)
    metrics.describe(batch)

    plan, needed = method.updates, [n for t in (*method.objective, *live) for n in t.needs if isinstance(n, Signal)]
    if plan.epochs * plan.mini_batches > 1:
        batch = run.trainer.provide(batch, [s for s in needed if s.of == "old"])
    batch = run.trainer.provide(batch, [s for s in needed if s.of not in ("old", "now")])
    begun = time.monotonic()
    for update in plan(batch):
        metrics.add(*run.trainer.step(update, method.objective, live))
    metrics.time("train", begun)

    run.observe(method, batch)
    run.iteration += 1
    run.tokens += int(metrics.values["tokens"])
    return batch, metrics.line(run.iteration)


def _gather(run: Run, method: Method, metrics: Metrics) -> Batch:
    """Sample, reward and keep, until there are enough groups that carry a signal or no more rounds."""
    strategy = method.rollout or Sample()
    wanted, rounds = run.config.tasks, 0
    top_up = next((k for k in method.keep if k.top_up), None)
    kept: list[Batch] = []
    while True:
        requests = run.requests(method, wanted)
        groups = run.driver.collect([strategy.plan(r) for r in requests])
        batch = Batch.from_rollouts([r for g in groups for r in g], seed=run.config.seed * 1_000_003 + run.iteration)
        batch = batch.to(device=run.policy.device)
        metrics.sampled(batch)
        batch = run.apply(method.reward, run.remember(method, batch))
        batch = run.apply(method.keep, batch)
        rounds += 1
        chosen = batch.get("group.keep")
        if chosen is None:
            return batch
        if bool(chosen.any()):
            kept.append(batch.take("group", chosen))
        if sum(b.size("group") for b in kept) >= wanted or top_up is None or rounds == (top_up.max_rounds or -1):
            break
    if not kept:
        raise PodiumError(
            f"After {rounds} rounds no group carries a signal: every answer to a task gets the same reward. "
            "Choose an easier or a harder level, or a method that learns from such groups."
        )
    joined = Batch.concat(kept)
    return joined.take("group", torch.arange(min(wanted, joined.size("group")), device=joined.device))


def sentinel(run: Run, batch: Batch, metrics: Metrics, rollouts: int = 4) -> None:
    """Score a few sampled tokens again with the trainer's weights: a gap beyond rounding means a stale sampler."""
    sampled = (batch["rollout.purpose"] == Purpose.train).nonzero().reshape(-1)  # a greedy one has no distribution
    few = batch.take("rollout", sampled[:rollouts])
    if few.size("token") == 0:
        return
    sampling = getattr(run.config.method.rollout, "top_p", 1.0)
    if sampling < 1.0:
        return  # truncated sampling renormalises: its log-probs differ from the trainer's by design
    scored = run.trainer.provide(few.without([OLD]), [OLD])
    gap = float((scored[OLD] - scored[SAMPLED]).abs().mean())
    metrics.put("sampler_gap", gap)
    if gap > run.config.sentinel:
        raise PodiumError(
            f"Sampler and trainer disagree: their log-probabilities of the same tokens differ by {gap:.2g} on average "
            f"(allowed {run.config.sentinel:g}) at iteration {run.iteration}. "
            "The sampler does not use the trained weights."
        )
