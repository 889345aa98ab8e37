"""A gate that says by yes or no what is kept: a surrogate on the probability of keeping, and a loss on labels."""

from __future__ import annotations

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.bernoulli import bernoulli_logp
from podium.core.errors import within
from podium.core.part import Need
from podium.core.schedule import Number
from podium.core.signal import Signal
from podium.core.term import Term

__all__ = ["GateLabels", "GateSurrogate"]

NOW, OLD = Signal("log_odds", of="now", grad=True), Signal("log_odds", of="old")
TINY = 1e-6  # added to probabilities, as released


class GateSurrogate(Term):
    """−min(ρ·A, clip(ρ, 1 ± clip)·A) + kl · (q − log q − 1), on the probability p of keeping, whatever was decided:
    ρ = p / p_old, held within `ratio_limits`, and q = p_old / p, within [1e-4, 1e4].

    A choice that was not made is credited as if it had been: everything is tried in training. kl = 0 leaves out the
    penalty.
    """

    reference = "GF-Screen, https://github.com/Luffy03/GF-Screen"
    clip: Number = 0.1  # ε on both sides, ≥ 0
    kl: Number = 0.01  # coefficient of the penalty to the gate before the updates, ≥ 0
    ratio_limits: tuple[float, float] = (0.01, 5.0)  # the ratio is held within these before it is clipped

    needs = ("token.advantage", NOW, OLD)

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, "clip", 0)
        within(self, "kl", 0)

    def _ratio(self, batch: Batch) -> Tensor:
        now, old = (torch.sigmoid(batch[of]) + TINY for of in (NOW, OLD))
        return (now.log() - old.log()).exp().clamp(*self.ratio_limits)

    def loss(self, batch: Batch) -> Tensor:
        ratio, advantage = self._ratio(batch), batch["token.advantage"]
        clip = float(self.clip)
        gained = torch.minimum(ratio * advantage, ratio.clamp(1 - clip, 1 + clip) * advantage)
        p, before = torch.sigmoid(batch[NOW]), torch.sigmoid(batch[OLD])
        q = (before / (p + TINY)).clamp(1e-4, 1e4)
        return -gained + float(self.kl) * (q - (q + TINY).log() - 1)

    def diagnostics(self, batch: Batch) -> dict[str, Tensor]:
        return {"gate.kept": torch.sigmoid(batch[NOW])}


class GateLabels(Term):
    """−log p(label): the cross-entropy of a gate on labels, whatever was decided."""

    reference = "GF-Screen, https://github.com/Luffy03/GF-Screen"
    label: str = "turn.lesion"  # a column: 1 for what should be kept, 0 for the rest

    @property
    def needs(self) -> tuple[Need, ...]:
        return (NOW, self.label)

    def loss(self, batch: Batch) -> Tensor:
        label = batch.spread(batch[self.label], self.label.partition(".")[0], "token")
        return -bernoulli_logp(batch[NOW], label > 0)
