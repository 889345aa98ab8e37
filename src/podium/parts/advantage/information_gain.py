"""Turn-level credit from information gain, together with the outcome."""

from __future__ import annotations

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.cells import overflow_safe
from podium.core.errors import one_of, within
from podium.core.normalize import Normalizer
from podium.core.part import Advantage, Columns, Need
from podium.core.schedule import Number

__all__ = ["GainReturns", "GatedGain"]


class GainReturns(Advantage):
    """Discounted returns of turn rewards that are normalised over the group: information gains and outcomes.

        A_t = r'_t + gamma · A_{t+1},  r' = (r − mean) / (std + ε),  std = sqrt(population variance + ε_var)

    over = "joint" normalises all turn rewards of the group together, "apart" the outcomes and the gains separately. A
    reward that is alone in its set has std 1. gamma = 0 credits each turn by its own reward.
    """

    reference = "IGPO, https://github.com/GuoqingWang1/IGPO"
    gamma: Number = 1.0  # discount per turn, in [0, 1]
    over: str = "joint"  # joint or apart
    scale: str = "std"  # std or none
    outcome: str | None = None  # a boolean column: the turns whose reward is an outcome; None: the last of each rollout
    epsilon: float = 1e-6  # ε, ≥ 0
    variance_epsilon: float = 1e-8  # ε_var, ≥ 0

    provides = ("turn.advantage",)

    def __post_init__(self) -> None:
        within(self, "gamma", 0, 1)
        one_of(self, "over", ("joint", "apart"))
        one_of(self, "scale", ("std", "none"))
        within(self, "epsilon", 0)
        within(self, "variance_epsilon", 0)

    @property
    def needs(self) -> tuple[Need, ...]:
        outcome = () if self.outcome is None or self.over == "joint" else (self.outcome,)
        return ("turn.reward.gain", *outcome)

    @property
    def normalizes(self) -> bool:
        return self.scale != "none"

    def normalized(self, batch: Batch) -> Tensor:
        """[turn] r'."""
        r, final = batch["turn.reward.gain"], batch.last("turn") if self.outcome is None else batch[self.outcome]
        sets = batch.by("turn", "group", *(() if self.over == "joint" else (final.long(),)))
        if self.scale == "none":
            return sets.centre(r)
        std = overflow_safe(lambda s: (s.square() + self.variance_epsilon).sqrt(), sets.std(r, unbiased=False))
        std = std.where(sets.count() > 1, 1)
        divisor = std + self.epsilon
        return sets.centre(r) / divisor.where(divisor > 0, 1)

    def __call__(self, batch: Batch) -> Columns:
        return {"turn.advantage": batch.scan(self.normalized(batch), "turn", decay=float(self.gamma))}


class GatedGain(Advantage):
    """GRPO's advantage plus a gated intrinsic advantage of information gain, which acts where the outcomes are alike.

        A = A_out + weight · g · m · A_int

    A_out is GRPO's; A_int normalises x = gain / (tokens of the turn) over the group's tokens with x ≠ 0. The gate is
    g = sigmoid(−std / tau), std that of the group's outcomes; m = min(1, max(sd(A_out), cap) / sd(A_int)) over the
    tokens of the batch bounds the intrinsic term. weight = 0 is GRPO.
    """

    reference = "InfoPO, https://github.com/kfq20/InfoPO"
    weight: Number = 0.1  # weight of the intrinsic term
    tau: Number = 0.05  # temperature of the gate, > 0
    cap: Number = 1.0  # the std of A_int may always reach this, ≥ 0
    gains: str = "normalized"  # normalized, or raw: A_int = x
    outcome: bool = True  # False: the intrinsic term alone, A = m · A_int
    epsilon: float = 1e-6  # > 0

    needs = ("rollout.reward", "turn.gain")
    provides = ("turn.advantage", "rollout.gate")
    normalizes = True

    def __post_init__(self) -> None:
        within(self, "tau", 0, open_low=True)
        within(self, "cap", 0)
        one_of(self, "gains", ("normalized", "raw"))
        within(self, "epsilon", 0, open_low=True)

    def scores(self, batch: Batch) -> Tensor:
        """[rollout] The outcomes, rounded to four decimals so that rounding error does not open or shut the gate."""
        return batch["rollout.reward"].round(decimals=4)

    def extrinsic(self, batch: Batch) -> Tensor:
        """[rollout] A_out."""
        return Normalizer(epsilon=self.epsilon).normalized(batch.by("rollout", "group"), self.scores(batch))

    def gate(self, batch: Batch) -> Tensor:
        """[rollout] g; a group of one counts as std 1, so its gate is shut."""
        groups = batch.by("rollout", "group")
        return torch.sigmoid(-groups.std(self.scores(batch)).where(groups.count() > 1, 1) / self.tau)

    def intrinsic(self, batch: Batch) -> Tensor:
        """[turn] A_int, the same for each token of the turn."""
        length = batch.length("turn")
        x = (batch["turn.gain"] / length.clamp(min=1)).where(length > 0, 0)
        if self.gains == "raw":
            return x
        nonzero = batch.by("turn", "group", where=x != 0)  # a turn counts once for each of its tokens
        std = nonzero.std(x, weight=length).where(nonzero.sum(length) > 1, 1)
        return (nonzero.centre(x, weight=length) / (std + self.epsilon)).where(x != 0, 0)

    def magnitude(self, batch: Batch) -> Tensor:
        """[batch] m."""
        turns, length = batch.by("turn").agg, batch.length("turn")
        out = batch.spread(self.extrinsic(batch), "rollout", "turn")
        outer, inner = (turns.std(a, weight=length) + self.epsilon for a in (out, self.intrinsic(batch)))
        return (outer.clamp(min=float(self.cap)) / inner).clamp(max=1)

    def __call__(self, batch: Batch) -> Columns:
        gate, advantage = self.gate(batch), batch.spread(self.magnitude(batch), "batch", "turn") * self.intrinsic(batch)
        if self.outcome:
            outer, gate_of_turn = (batch.spread(x, "rollout", "turn") for x in (self.extrinsic(batch), gate))
            advantage = outer + self.weight * gate_of_turn * advantage
        return {"turn.advantage": advantage, "rollout.gate": gate}
