"""The training loop. One iteration is one screen; what only some methods use is in other modules."""

from __future__ import annotations

from typing import Any

from podium.core.batch import Batch
from podium.method import Method
from podium.training.live_parts import fixed_metrics, fixed_shapes, live_parts, signals_before_updates
from podium.training.metrics import Metrics
from podium.training.replay import with_replayed, without_replayed
from podium.training.restated import restated
from podium.training.run import Evaluate, Record, Run
from podium.training.sentinel import watch_sampler
from podium.training.top_up import collect_until_full, top_up_part

__all__ = ["iterate"]


def iterate(run: Run, evaluate: Evaluate | None = None, record: Record | None = None) -> tuple[Batch, dict[str, Any]]:
    """One iteration: collect, reward, keep, credit, update, remember. Returns the batch and its metrics.

    `record` gets the number of the iteration and its batch. `evaluate` measures the policy on held-out tasks, in those
    iterations after which an evaluation is due.
    """
    method, metrics = run.begin(), Metrics()
    # Collect, annotate, reward, keep: `collect_round`, below.
    with metrics.sampling(run.driver):
        if top_up_part(method) is None:
            batch = keep_groups(run, collect_round(run, method, metrics), metrics)
        else:  # dynamic sampling
            batch = collect_until_full(run, method, metrics, collect_round)

    # Credit.
    batch = run.apply([part for part in (method.advantage, *fixed_shapes(method)) if part], batch)
    batch = run.apply(fixed_metrics(method), batch)
    metrics.describe(batch)
    metrics.report(batch, fixed_metrics(method))

    # Update.
    live = live_parts(method)
    trained = run.trainer.provide(with_replayed(run, method, batch), signals_before_updates(method, live))
    run.stop.forbid()  # up to here the run may stop and `abandon` the iteration
    with metrics.timed("train"):
        sentinel = watch_sampler(run, method, live, batch)
        # A method without an objective learns in its memories alone: there is nothing to update.
        updates = method.updates(trained, run.trainer.current) if method.objective else ()
        for number, update in enumerate(updates):
            compare = None if number else sentinel.compare  # at the first update the weights are those that sampled
            metrics.add_update(*run.trainer.step(update, method.objective, live, method.updates.skip_above, compare))
            run.acted.update(metrics.updates[-1][0].acted)
    if not method.objective:
        metrics.put("weights_unchanged", 1.0)
    if sentinel.count:
        metrics.put("sampler_gap", sentinel.gap)
        run.first_gap = sentinel.gap if run.first_gap is None else run.first_gap

    # Remember.
    batch = without_replayed(method, batch, trained, metrics)
    run.acted.update(run.memories.acted(method, batch))
    batch = run.memories.observe(method, batch, run.dropped)
    metrics.report_columns(batch, (*method.parts(), *method.memories))
    metrics.acted = dict(run.acted)
    if record is not None:
        record(run.iteration + 1, batch)
    return batch, run.end(metrics.line(run.iteration + 1), evaluate)


def collect_round(run: Run, method: Method, metrics: Metrics) -> Batch:
    """Sample the next tasks, annotate and reward their rollouts, and let the keep parts mark what is trained."""
    rollouts = run.collect(method, run.requests(method, run.config.tasks))
    batch = Batch.from_rollouts(rollouts, seed=run.config.seed * 1_000_003 + run.iteration)
    batch = restated(run, method, batch)
    metrics.count_sampled(batch)
    metrics.count_judged(run.driver)
    metrics.count_merged(batch, [float(rollout.columns["reward"]) for rollout in rollouts])
    batch = run.memories.of_batch(method, batch)
    batch = run.apply(method.annotate, batch)
    batch = run.apply(method.reward, batch)
    return run.apply(method.keep, batch)


def keep_groups(run: Run, batch: Batch, metrics: Metrics) -> Batch:
    """The batch without the groups that the keep parts drop. If they drop all, it stays whole: nothing of it is
    trained, and the iteration has no update."""
    kept = batch.get("group.keep")
    if kept is None:
        return batch
    metrics.count_dropped(*run.drop(batch, ~kept))
    if bool(kept.any()):
        return batch.take("group", kept)
    run.dropped.clear()
    return batch
