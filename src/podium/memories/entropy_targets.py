"""State of entropy control: the hysteresis of a gate, an entropy anchor, and a set point for the entropy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.memory import Memory, State
from podium.core.part import Columns, Need
from podium.core.signal import Signal
from podium.core.term import Aggregate
from podium.parts.shape.tokens import SelectTokens

__all__ = ["EntropyAnchor", "EntropySetpoint", "GateState"]


class GateState(Memory):
    """Whether negative samples were trained in the last iteration, for a gate with hysteresis; at first they are."""

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


class EntropyAnchor(Memory):
    """The initial entropy at peak tokens, measured on the first batch before any update and constant from then on.

    A peak is a token whose entropy is above the (1 − share)-quantile of its rollout; the mean is over the peaks of a
    rollout, then over rollouts. Schedules follow it as `anchor.level`; −1 until it is measured.
    """

    reference = "SIREN, https://github.com/Linn3a/siren"
    share: float = 0.2  # of a rollout's tokens, in (0, 1]
    top_p: float = 0.8  # the nucleus whose entropy is taken, in (0, 1]

    provides = ("batch.anchor.level",)

    def __post_init__(self) -> None:
        within(self, "share", 0, 1, open_low=True)
        within(self, "top_p", 0, 1, open_low=True)

    @property
    def peaks(self) -> SelectTokens:
        """The part that selects the peak tokens."""
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
    """A set-point controller of the entropy: H, the mean −log π of the last batch's tokens, against a target.

    Schedules follow `setpoint.gap` = |target − H| and the sampling temperature `setpoint.temperature`, `hot` while
    H ≤ target, else `cold`. H is 0 before the first batch.
    """

    reference = "DCPO, https://github.com/597358816/DCPO"
    target: float = 0.5  # nats
    hot: float = 1.2  # temperature, > 0
    cold: float = 0.8  # temperature, > 0

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
