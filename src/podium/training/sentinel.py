"""The sentinel: what was sampled must have the log-probabilities that the trainer's weights give it."""

from __future__ import annotations

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.columns import Origin, Purpose
from podium.core.errors import PodiumError
from podium.core.signal import Signal
from podium.method import Method
from podium.policy import Policy

__all__ = ["Sentinel"]

SAMPLED = Signal("logp", of="sampler")


class Sentinel:
    """Looks at one iteration. A mean gap beyond rounding, `allowed`, means that the sampler has other weights."""

    def __init__(self, method: Method, iteration: int, allowed: float) -> None:
        self.iteration, self.allowed = iteration, allowed
        # Truncated or with a varying temperature, the distribution sampled from differs from the trainer's by design.
        self.blind = method.rollout is not None and method.rollout.alters_distribution
        self.total, self.count = 0.0, 0

    def look(self, policy: Policy) -> None:
        """See that what was sampled with, and is about to be computed with, are the weights that are trained."""
        weights = None if policy.decoder is None else policy.decoder.weights
        if weights is not None and not weights.current():
            raise PodiumError(
                f"{policy.name or 'The model'} is computed with copies of weights that have been trained since "
                f"(iteration {self.iteration}): whoever writes to the weights must call bump()."
            )

    @property
    def gap(self) -> float:
        """The mean distance of the log-probabilities that were compared."""
        return self.total / max(self.count, 1)

    def see(self, batch: Batch, logp: Tensor) -> None:
        """Compare the log-probabilities [token] by the trainer, before it changes its weights, with the sampler's."""
        if self.blind:
            return
        own = batch.spread(self.sampled(batch), "rollout", "token")
        if "token.origin" in batch:
            own = own & (batch["token.origin"] == Origin.policy)
        gaps = (logp.detach() - batch[SAMPLED]).abs()[own]
        self.total += float(gaps.double().sum())
        self.count += len(gaps)
        if self.gap > self.allowed:
            raise PodiumError(
                f"Sampler and trainer disagree: their log-probabilities of the same tokens differ by {self.gap:.2g} on "
                f"average (allowed {self.allowed:g}) at iteration {self.iteration}. "
                "Either the sampler does not use the trained weights, or this model loses more to rounding than most: "
                "dtype=float32 tells which, and sentinel=… allows more."
            )

    def sampled(self, batch: Batch) -> Tensor:
        """[rollout] which were drawn from the policy as it is, in the context in which they are trained."""
        sampled: Tensor = batch["rollout.purpose"] == Purpose.train  # a greedy one has no distribution
        if "rollout.version" in batch:
            sampled = sampled & (batch["rollout.version"] == self.iteration)  # earlier weights wrote the others
        if "rollout.writer" in batch:
            by_policy = [writer == "policy" for writer in batch["rollout.writer"]]
            sampled = sampled & torch.tensor(by_policy, device=batch.device)
        # What is trained under another context than it was sampled under has another probability there.
        pairs = zip(batch["turn.context"], batch["turn.train_context"], strict=True)
        alike = torch.tensor([a == b for a, b in pairs], dtype=torch.bool, device=batch.device)
        return sampled & batch.partition("turn", "rollout").agg.all(alike)
