"""Replay: rollouts of earlier iterations that memories put into the updates beside those of today."""

from __future__ import annotations

import torch

from podium.core.activity import label
from podium.core.batch import Batch
from podium.core.memory import Memory
from podium.core.signal import Signal
from podium.memories.replay import join_batches
from podium.method import Method
from podium.training.metrics import Metrics
from podium.training.run import Run
from podium.training.trainer import Trainer

__all__ = ["with_behaviour_policy", "with_replayed", "without_replayed"]

WEIGHT = "rollout.weight.replay"


def with_replayed(run: Run, method: Method, batch: Batch) -> Batch:
    """The batch with the rollouts that memories replay, each with the log-probabilities of when it was sampled."""
    buffers = _buffers(method)
    if not buffers:
        return batch
    batch = with_behaviour_policy(run.trainer, batch, run.iteration)
    joined = batch.with_columns({WEIGHT: torch.ones(len(batch), dtype=batch.dtype)})
    for memory in buffers:
        rows = memory.replay(run.memories.states[type(memory).__name__], batch)
        run.acted[label(memory)] += 0 if rows is None else len(rows)
        joined = joined if rows is None else join_batches(joined, rows)
    return joined


def without_replayed(method: Method, batch: Batch, trained: Batch, metrics: Metrics) -> Batch:
    """The batch as it was before replayed rollouts joined it, with the signals that were computed for all of them."""
    if not _buffers(method):
        return trained
    fresh = torch.arange(len(trained), device=trained.device) < len(batch)
    metrics.put("replayed", len(trained) - len(batch))
    if not bool(fresh.all()):
        replayed = trained.take("rollout", ~fresh)
        metrics.put("replayed.tokens", replayed.size("token"))
        age = trained["rollout.version"].max() - replayed["rollout.version"]
        metrics.put("replayed.age", float(age.double().mean()))
    rows = trained.take("rollout", fresh)
    return batch.with_columns({c: rows[c] for c in rows.columns if c not in batch and c != WEIGHT})


def with_behaviour_policy(trainer: Trainer, groups: Batch, iteration: int) -> Batch:
    """Groups that may be trained later: with the version and the log-probabilities of the weights that sampled them."""
    groups = trainer.provide(groups, [Signal("logp", of="old")])
    version = torch.full((len(groups),), iteration, device=groups.device)
    return groups if "rollout.version" in groups else groups.with_columns({"rollout.version": version})


def _buffers(method: Method) -> list[Memory]:
    """The memories of the method that replay rollouts."""
    return [memory for memory in method.memories if type(memory).replay is not Memory.replay]
