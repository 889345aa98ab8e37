"""How sure a rollout is of its answer, given its reasoning: the entropy of the decision."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.part import Annotate, Columns, Need
from podium.core.signal import Signal
from podium.parts.reward.listener import option_probabilities

__all__ = ["FirstTokenEntropy", "OptionEntropy"]

REFERENCE = "ExPO-HM, https://github.com/JingbiaoMei/ExPO-HM"
TINY = 1e-10  # within the logarithm, as in the released code


def _entropy(p: Tensor) -> Tensor:
    return -(p * (p + TINY).log()).sum(-1)


class OptionEntropy(Annotate):
    """Decision entropy over K options: H = −Σ p ln p in nats (`rollout.decision.nats`) and H / ln K
    (`rollout.decision.entropy`). Both are 0 where a rollout gives no answer."""

    reference = REFERENCE

    needs = ("rollout.options", "rollout.decided")
    provides = ("rollout.decision.nats", "rollout.decision.entropy")

    def __call__(self, batch: Batch) -> Columns:
        nats, shares = [], []
        for options in batch["rollout.options"]:
            h = float(_entropy(option_probabilities(options, torch.float32))) if options else 0.0  # as released
            nats.append(h)
            shares.append(h / round(math.log(max(len(options), 2)), 4))  # by 0.6931 for two, as released
        found = {"nats": nats, "entropy": shares}
        decided = batch["rollout.decided"].bool()
        return {
            f"rollout.decision.{name}": torch.tensor(x, dtype=batch.dtype, device=batch.device).where(decided, 0)
            for name, x in found.items()
        }


class FirstTokenEntropy(Annotate):
    """Decision entropy over many classes: H of the `k` likeliest tokens at the first token of the answer, in nats
    (`rollout.decision.nats`), and min(1, H / ln k) (`rollout.decision.entropy`); 0 where there is no such token."""

    reference = REFERENCE
    k: int = 50
    where: str = "token.decision"  # a boolean column that marks the answer's tokens, of which the first is taken

    provides = ("rollout.decision.nats", "rollout.decision.entropy")

    def __post_init__(self) -> None:
        within(self, "k", 2)

    @property
    def _top(self) -> Signal:
        return Signal("top", of="old", k=self.k)

    @property
    def needs(self) -> tuple[Need, ...]:
        return (self.where, self._top)

    def __call__(self, batch: Batch) -> Columns:
        logp = batch[self._top][..., 1]
        marked = batch[self.where].bool()
        first = batch.first("token", "rollout", where=marked)
        nats = batch.reduce(_entropy(logp.exp()).to(batch.dtype), "token", "rollout", "sum", where=first)
        return {
            "rollout.decision.nats": nats,
            "rollout.decision.entropy": (nats / math.log(logp.shape[-1])).clamp(max=1),
        }
