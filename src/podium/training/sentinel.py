"""The sentinel: sampled tokens must have the log-probabilities that the trainer's weights give them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.columns import Origin, Purpose
from podium.core.errors import PodiumError
from podium.core.gradient import now_signals
from podium.core.memory import Memory
from podium.core.part import Metric, Part, Shape
from podium.core.signal import Signal
from podium.method import Method
from podium.policy import Policy
from podium.training.run import Run

__all__ = ["Sentinel", "watch_sampler"]

SAMPLED, OLD, NOW = (Signal("logp", of=source) for source in ("sampler", "old", "now"))
SPOT_CHECK = 4  # rollouts that are scored for the sentinel alone, where no update computes log-probabilities


class Sentinel:
    """Watches one iteration. A mean gap beyond rounding, `allowed`, means that the sampler has other weights."""

    def __init__(self, method: Method, iteration: int, allowed: float) -> None:
        self.iteration, self.allowed = iteration, allowed
        # At a varying temperature, the distribution drawn from differs from the trainer's by design.
        drawn = None if method.rollout is None else method.rollout.draw_shift
        self.shift = (
            None if reads_sampler(method) else drawn
        )  # None: the same, or restated (`podium.training.restated`)
        self.total, self.count = 0.0, 0

    def check_weights(self, policy: Policy) -> None:
        """Refuse to go on with copies of the weights, in a lower precision, that are older than the weights."""
        weights = None if policy.decoder is None else policy.decoder.weights
        if weights is not None and not weights.current():
            raise PodiumError(
                f"{policy.name or 'The model'} is computed with copies of weights that have been trained since "
                f"(iteration {self.iteration}): whoever writes to the weights must call bump()."
            )

    @property
    def gap(self) -> float:
        """The mean distance between the log-probabilities that were compared."""
        return self.total / max(self.count, 1)

    def compare(self, batch: Batch, logp: Tensor) -> None:
        """Compare the trainer's log-probabilities [token], before any update, with the sampler's."""
        if self.shift is not None:
            if self.shift not in batch:
                return
            logp = logp - batch[self.shift]
        comparable = self.comparable_tokens(batch)
        gaps = (logp.detach() - batch[SAMPLED]).abs()[comparable]
        self.total += float(gaps.double().sum())
        self.count += len(gaps)
        if self.gap > self.allowed:
            raise PodiumError(
                f"Sampler and trainer disagree: their log-probabilities of the same tokens differ by {self.gap:.2g} on "
                f"average (allowed {self.allowed:g}) at iteration {self.iteration}. "
                "Either the sampler does not use the trained weights, or this model loses more to rounding than most: "
                "dtype=float32 tells which, and sentinel=… allows more."
            )

    def comparable_tokens(self, batch: Batch) -> Tensor:
        """[token] which were sampled like that."""
        comparable = batch.spread(self.comparable(batch), "rollout", "token")
        if "turn.by.policy" in batch:  # another role may have written some turns of a rollout
            comparable = comparable & batch.spread_column("turn.by.policy", "token")
        return comparable & (batch["token.origin"] == Origin.policy) if "token.origin" in batch else comparable

    def comparable(self, batch: Batch) -> Tensor:
        """[rollout] which were sampled from the policy as it is, in the context in which they are trained."""
        sampled: Tensor = batch["rollout.purpose"] == Purpose.train  # a greedy one has no distribution
        if "rollout.version" in batch:
            sampled = sampled & (batch["rollout.version"] == self.iteration)  # earlier weights wrote the others
        if "rollout.writer" in batch:
            by_policy = [writer == "policy" for writer in batch["rollout.writer"]]
            sampled = sampled & torch.tensor(by_policy, device=batch.device)
        # A turn that is trained in another context than it was sampled in has another probability there.
        contexts = zip(batch["turn.context"], batch["turn.train_context"], strict=True)
        same = torch.tensor([a == b for a, b in contexts], dtype=torch.bool, device=batch.device)
        return sampled & batch.partition("turn", "rollout").agg.all(same)


def watch_sampler(run: Run, method: Method, live: Sequence[Shape | Metric], batch: Batch) -> Sentinel:
    """The sentinel of an iteration. If no update computes the log-probabilities under which tokens were drawn, a few
    rollouts are scored for it."""
    sentinel = Sentinel(method, run.iteration, run.gap_allowed)
    sentinel.check_weights(run.policy)
    restricted = method.rollout is not None and method.rollout.restricts  # checked even if no group is informative
    if (
        sentinel.shift is not None
        or restricted
        or all(signal.column != NOW.column for signal in now_signals([*method.objective, *live]))
    ):
        rollouts = sentinel.comparable(batch).nonzero().reshape(-1)[:SPOT_CHECK]
        if len(rollouts):
            wanted = [OLD] if sentinel.shift is None else [OLD, sentinel.shift]
            few = run.trainer.provide(batch.take("rollout", rollouts).without([OLD]), wanted)
            sentinel.compare(few, few[OLD])
    return sentinel


def reads_sampler(method: Method) -> bool:
    """Whether a part or memory reads the sampler's log-probabilities."""
    readers: list[Part | Memory] = [*method.parts(), *method.memories]
    return any(isinstance(need, Signal) and need.column == SAMPLED.column for part in readers for need in part.needs)
