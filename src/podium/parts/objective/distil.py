"""Distillation: the policy's next-token distribution is pulled towards a teacher's."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.part import Need
from podium.core.signal import Signal
from podium.core.term import Term

__all__ = ["Distil"]

TINY = 1e-12  # a smaller probability of the tail is rounding error


class Distil(Term):
    """Distillation by the Jensen-Shannon divergence ½ KL(p ‖ m) + ½ KL(q ‖ m), m = (p + q)/2.

    p is the policy, q the teacher; both over the teacher's `k` most likely tokens and one bucket for all others. Only
    the policy gets a gradient.
    """

    reference = "SRPO: Group-Relative and Self-Distillation Policy Optimization via Sample Routing"
    k: int = 100  # how many of the teacher's most likely tokens are compared one by one
    teacher: str = "teacher"  # a role

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, "k", 1)

    @property
    def _top(self) -> Signal:
        return Signal("top", of=self.teacher, k=self.k)

    @property
    def _student(self) -> Signal:
        return Signal("logp_of", of="now", grad=True, tokens=self._top.column)

    @property
    def needs(self) -> tuple[Need, ...]:
        return (self._top, self._student)

    def loss(self, batch: Batch) -> Tensor:
        p, q = _with_tail(batch[self._student]), _with_tail(batch[self._top][..., 1])
        m = torch.logaddexp(p, q) - math.log(2)
        return (p.exp() * (p - m) + q.exp() * (q - m)).sum(-1) / 2

    def diagnostics(self, batch: Batch) -> dict[str, Tensor]:
        return {"divergence": self.loss(batch)}


def _with_tail(logp: Tensor) -> Tensor:
    """[token, k + 1] the log-probabilities of k tokens and of all others together."""
    rest = (1 - logp.exp().sum(-1, keepdim=True)).clamp(min=TINY).log()
    return torch.cat([logp, rest], -1)
