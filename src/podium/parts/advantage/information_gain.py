"""Credit for turns by what they found out, beside the outcome."""

from __future__ import annotations

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import one_of, within
from podium.core.normalize import Normalizer
from podium.core.part import Advantage, Columns, Need
from podium.core.schedule import Number

__all__ = ["GainReturns", "GatedGain"]


class GainReturns(Advantage):
    """A_t = r'_t + gamma · A_{t+1}, with r' = (r − mean) / (std + ε) over all turn rewards of the group.

    std = sqrt(population variance + ε_var), 1 in a set of one. `apart` compares outcomes with outcomes, gains with
    gains.
    """

    reference = "IGPO, https://github.com/GuoqingWang1/IGPO"
    gamma: Number = 1.0
    over: str = "joint"  # joint, or apart: the last turns, which hold the outcomes, and the others
    scale: str = "std"  # std or none
    outcome: str | None = None  # a column that is True where a turn holds an outcome; None: the last of each rollout
    epsilon: float = 1e-6
    variance_epsilon: float = 1e-8

    provides = ("turn.advantage",)

    def __post_init__(self) -> None:
        within(self, "gamma", 0, 1)
        one_of(self, "over", ("joint", "apart"))
        one_of(self, "scale", ("std", "none"))
        within(self, "epsilon", 0)
        within(self, "variance_epsilon", 0)

    @property
    def needs(self) -> tuple[Need, ...]:
        told = self.outcome is not None and self.over == "apart"
        return ("turn.reward.gain", *((self.outcome,) if told else ()))

    @property
    def normalizes(self) -> bool:
        return self.scale != "none"

    def normalized(self, batch: Batch) -> Tensor:
        """[turn] r'."""
        r, final = batch["turn.reward.gain"], batch.last("turn") if self.outcome is None else batch[self.outcome]
        sets = batch.by("turn", "group", *(() if self.over == "joint" else (final.long(),)))
        if self.scale == "none":
            return sets.centre(r)
        std = (sets.std(r, unbiased=False).square() + self.variance_epsilon).sqrt().where(sets.count() > 1, 1)
        divisor = std + self.epsilon
        return sets.centre(r) / divisor.where(divisor > 0, 1)

    def __call__(self, batch: Batch) -> Columns:
        return {"turn.advantage": batch.scan(self.normalized(batch), "turn", decay=float(self.gamma))}


class GatedGain(Advantage):
    """A = A_out + weight · g · m · A_int: the outcome's comparison, and that of the gains where outcomes are alike.

    A_int compares x = gain / (tokens of the turn) over the tokens of the group with x ≠ 0; g = sigmoid(−std/tau) with
    the std of the group's outcomes; m = min(1, max(sd(A_out), cap) / sd(A_int)) over the tokens of the batch.
    """

    reference = "InfoPO, https://github.com/kfq20/InfoPO"
    weight: Number = 0.1  # beta
    tau: Number = 0.05  # temperature of the gate
    cap: Number = 1.0
    gains: str = "normalized"  # normalized, or raw: A_int = x
    outcome: bool = True  # False: the gains alone, A = m · A_int
    epsilon: float = 1e-6

    needs = ("rollout.reward", "turn.gain")
    provides = ("turn.advantage", "rollout.gate")
    normalizes = True

    def __post_init__(self) -> None:
        within(self, "tau", 0, open_low=True)
        within(self, "cap", 0)
        one_of(self, "gains", ("normalized", "raw"))
        within(self, "epsilon", 0, open_low=True)

    def scores(self, batch: Batch) -> Tensor:
        """[rollout] outcomes, to four digits: what differs less is alike."""
        return batch["rollout.reward"].round(decimals=4)

    def extrinsic(self, batch: Batch) -> Tensor:
        """[rollout] A_out."""
        return Normalizer(epsilon=self.epsilon).normalized(batch.by("rollout", "group"), self.scores(batch))

    def gate(self, batch: Batch) -> Tensor:
        """[rollout] g; that of a group of one is shut."""
        groups = batch.by("rollout", "group")
        return torch.sigmoid(-groups.std(self.scores(batch)).where(groups.count() > 1, 1) / self.tau)

    def intrinsic(self, batch: Batch) -> Tensor:
        """[turn] A_int, the same for each token of the turn."""
        length = batch.length("turn")
        x = (batch["turn.gain"] / length.clamp(min=1)).where(length > 0, 0)
        if self.gains == "raw":
            return x
        gained = batch.by("turn", "group", where=x != 0)  # a turn counts once for each of its tokens
        std = gained.std(x, weight=length).where(gained.sum(length) > 1, 1)
        return (gained.centre(x, weight=length) / (std + self.epsilon)).where(x != 0, 0)

    def magnitude(self, batch: Batch) -> Tensor:
        """[batch] m."""
        turns, length = batch.by("turn").agg, batch.length("turn")
        out = batch.spread(self.extrinsic(batch), "rollout", "turn")
        outer, inner = (turns.std(a, weight=length) + self.epsilon for a in (out, self.intrinsic(batch)))
        return (outer.clamp(min=float(self.cap)) / inner).clamp(max=1)

    def __call__(self, batch: Batch) -> Columns:
        gate, inner = self.gate(batch), batch.spread(self.magnitude(batch), "batch", "turn") * self.intrinsic(batch)
        if self.outcome:
            out = self.extrinsic(batch)
            inner = batch.spread(out, "rollout", "turn") + self.weight * batch.spread(gate, "rollout", "turn") * inner
        return {"turn.advantage": inner, "rollout.gate": gate}
