"""Entropy control: gates with memory, bands, targets and anchors that follow the entropy of training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import PodiumError, one_of, within
from podium.core.memory import Memory, State
from podium.core.part import Columns, Need, Shape, stop_gradient
from podium.core.signal import Signal
from podium.objective.term import Aggregate
from podium.shape.scores import trained_tokens
from podium.shape.tokens import SelectTokens

__all__ = ["EntropyAnchor", "EntropyBand", "EntropyGate", "EntropySetpoint", "GateState"]


class EntropyGate(Shape):
    """While the entropy is too high, train only the rollouts with A > 0 and reward > 0; with hysteresis.

    H is the mean over rollouts of the mean entropy of their tokens. Above `high` negatives go off, below `low` they
    come back, in between they stay as they were. `memory=False` has them off whenever low < H < high.
    """

    reference = "QwenLong-L1.5 (AEPO), https://github.com/Tongyi-Zhiwen/Qwen-Doc"
    low: float = 0.18  # nats
    high: float = 0.28
    memory: bool = True
    of: str = "sampler"  # whose entropy: sampler or old

    provides = ("rollout.keep.gate", "batch.gate.negatives")

    def __post_init__(self) -> None:
        one_of(self, "of", ("sampler", "old"))
        if not self.low <= self.high:
            raise PodiumError(f"EntropyGate.low = {self.low} is above high = {self.high}.")

    @property
    def needs(self) -> tuple[Need, ...]:
        before = ("batch.gate.before",) if self.memory else ()
        return (Signal("entropy", of=self.of), "rollout.advantage", "rollout.reward", "rollout.length", *before)

    def negatives(self, entropy: Tensor, before: Tensor | None = None) -> Tensor:
        """[batch] whether negatives are trained at this entropy; `before`: whether they were."""
        if before is None:
            return (entropy <= self.low) | (entropy >= self.high)
        return (entropy < self.low) | (before & (entropy <= self.high))

    def kept(self, batch: Batch, negatives: Tensor) -> Tensor:
        """[rollout] who is trained."""
        success = (batch["rollout.advantage"] > 0) & (batch["rollout.reward"] > 0)
        return success | batch.spread(negatives, "batch", "rollout")

    def __call__(self, batch: Batch) -> Columns:
        own = batch.reduce(batch[Signal("entropy", of=self.of)], "token", "rollout", "mean")
        entropy = batch.by("rollout", where=batch["rollout.length"] > 0).agg.mean(own)
        before = batch["batch.gate.before"] > 0 if self.memory else None
        negatives = self.negatives(entropy, before)
        return {"rollout.keep.gate": self.kept(batch, negatives), "batch.gate.negatives": negatives.to(batch.dtype)}


class GateState(Memory):
    """Whether negatives were trained in the last iteration; yes, before the first one."""

    needs = ("batch.gate.negatives",)
    provides = ("batch.gate.before",)

    def initial(self) -> State:
        return {"negatives": 1.0}

    def recall(self, state: State, tasks: Sequence[Any]) -> Columns:
        return {"batch.gate.before": torch.tensor([state["negatives"]])}

    def observe(self, state: State, batch: Batch) -> State:
        return {"negatives": float(batch["batch.gate.negatives"][0])}

    def scalars(self, state: State) -> dict[str, float]:
        return {"gate.negatives": state["negatives"]}


class EntropyBand(Shape):
    """The band for each rollout's entropies: two quantiles of them over its selected tokens, as constants."""

    reference = "SPINE, https://github.com/JianghaoWu/SPINE"
    low: float = 0.1
    high: float = 0.5
    selected: str = "token.selected"

    provides = ("rollout.band.low", "rollout.band.high")

    def __post_init__(self) -> None:
        within(self, "low", 0, 1)
        within(self, "high", 0, 1)

    @property
    def needs(self) -> tuple[Need, ...]:
        return (Signal("entropy", of="now"), self.selected)

    def __call__(self, batch: Batch) -> Columns:
        h = stop_gradient(batch[Signal("entropy", of="now")])
        cells = trained_tokens(batch, "rollout", batch[self.selected]).agg
        low, high = (cells.quantile(h, q).nan_to_num(0) for q in (self.low, self.high))
        return {"rollout.band.low": low, "rollout.band.high": high}


class EntropyAnchor(Memory):
    """The mean entropy at the peaks of the first batch's rollouts, before any update; then constant.

    A peak is a token whose entropy is above the (1 − share)-quantile of its rollout; means over the peaks of a rollout,
    then over rollouts. Schedules follow it as `anchor.level`; until it is known it is −1.
    """

    reference = "SIREN, https://github.com/Linn3a/siren"
    share: float = 0.2
    top_p: float = 0.8  # the nucleus in which entropies are taken

    provides = ("batch.anchor.level",)

    def __post_init__(self) -> None:
        within(self, "share", 0, 1, open_low=True)
        within(self, "top_p", 0, 1, open_low=True)

    @property
    def peaks(self) -> SelectTokens:
        return SelectTokens(share=self.share, scope="rollout", rule="above_quantile", of="old", top_p=self.top_p)

    @property
    def needs(self) -> tuple[Need, ...]:
        return self.peaks.needs

    def initial(self) -> State:
        return {"anchor": -1.0}

    def recall(self, state: State, tasks: Sequence[Any]) -> Columns:
        return {"batch.anchor.level": torch.tensor([state["anchor"]])}

    def observe(self, state: State, batch: Batch) -> State:
        tokens = self.peaks(batch)[self.peaks.into]
        if state["anchor"] >= 0 or not bool(tokens.any()):
            return state
        c = Aggregate("token mean, rollout mean").coefficients(batch, tokens)
        return {"anchor": float((c * self.peaks.scores(batch)).double().sum())}

    def scalars(self, state: State) -> dict[str, float]:
        return {"anchor.level": state["anchor"]}


class EntropySetpoint(Memory):
    """H, the mean of −log π over the tokens of the last batch (0 before the first one), against a target.

    Schedules follow `setpoint.gap` = |target − H| and `setpoint.temperature`: `hot` while H ≤ target, else `cold`.
    """

    reference = "DCPO, https://github.com/597358816/DCPO"
    target: float = 0.5  # nats
    hot: float = 1.2
    cold: float = 0.8

    needs = (Signal("logp", of="old"),)
    provides = ("batch.setpoint.gap", "batch.setpoint.temperature")

    def __post_init__(self) -> None:
        within(self, "hot", 0, open_low=True)
        within(self, "cold", 0, open_low=True)

    def initial(self) -> State:
        return {"entropy": 0.0}

    def recall(self, state: State, tasks: Sequence[Any]) -> Columns:
        return {f"batch.{name}": torch.tensor([x]) for name, x in self.scalars(state).items()}

    def observe(self, state: State, batch: Batch) -> State:
        trained = batch.by("token", where=batch.trained("token")).agg
        if not bool(trained.count().any()):
            return state
        return {"entropy": -float(trained.mean(batch[Signal("logp", of="old")].double())[0])}

    def scalars(self, state: State) -> dict[str, float]:
        temperature = self.hot if state["entropy"] <= self.target else self.cold
        return {"setpoint.gap": abs(self.target - state["entropy"]), "setpoint.temperature": temperature}
