"""A turn-level critic trained by temporal differences: double Q and V heads, and a token-level baseline."""

from __future__ import annotations

from dataclasses import field

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.part import Need, stop_gradient
from podium.core.schedule import Number
from podium.core.signal import Signal
from podium.core.term import Aggregate, Term

__all__ = ["TokenBaselineLoss", "TurnCriticLoss"]


REFERENCE = "ArCHer, https://github.com/YifeiZhou02/ArCHer"


HEADS = ("q1", "q2", "v1", "v2")


def head_signals(of: str, grad: bool = False) -> dict[str, Signal]:
    """The value of each head at each token."""
    return {name: Signal("value", of=of, grad=grad, head=number) for number, name in enumerate(HEADS)}


def latest_head_signals(role: str) -> dict[str, Signal]:
    """The value of each head at each token, by a role as it is at the current update."""
    return {name: Signal("value", of="now", role=role, head=number) for number, name in enumerate(HEADS)}


OLD, NOW, TARGET = head_signals("old"), head_signals("now", grad=True), head_signals("target")
LATEST, LATEST_TARGET = latest_head_signals("critic"), latest_head_signals("target")


BASELINE_OLD, BASELINE = Signal("value", of="old", head=4), Signal("value", of="now", grad=True, head=4)
BASELINE_LATEST = Signal("value", of="now", role="critic", head=4)
REVISITED = "rollout.revisited"  # a single action at the context of an earlier turn: nothing follows it


def turn_values(batch: Batch, heads: dict[str, Signal], tokens: Tensor) -> dict[str, Tensor]:
    """[turn] the value of each head: Q at the turn's last token, which has seen the action, V at its first."""
    first, last = (f("token", "turn", where=tokens) for f in (batch.first, batch.last))
    places = {name: last if name.startswith("q") else first for name in HEADS}
    return {n: batch.reduce(batch[heads[n]], "token", "turn", "sum", where=places[n]) for n in HEADS}


def bootstrapped(batch: Batch, after: Tensor, gamma: float) -> Tensor:
    """[turn] r + (1 − done) · gamma · V̄ of the next turn."""
    return batch["turn.reward"] + gamma * after.where(~batch["turn.done"], 0)


def targets(batch: Batch, gamma: float, of: dict[str, Signal] = TARGET) -> dict[str, Tensor]:
    """[turn] the regression target of each head: y_j for Q_j and Q̄_j for V_j, from the target network."""
    slow = {name: stop_gradient(value) for name, value in turn_values(batch, of, batch.action).items()}
    bellman = {f"q{j}": bootstrapped(batch, batch.shift(slow[f"v{j}"], "turn", by=-1), gamma) for j in (1, 2)}
    return bellman | {f"v{j}": slow[f"q{j}"] for j in (1, 2)}


class TurnCriticLoss(Term):
    """Temporal-difference loss of the turn-level critic: Σ_j (Q_j − y_j)² + (V_j − Q̄_j)² for each turn.

    y_j = r + gamma · V̄_j of the next turn; bars denote the target network. With `gamma` the targets are computed here,
    also for replayed rollouts; V learns from the current policy's actions, so from fresh rollouts alone. Q does not
    learn from actions whose consequences are unknown (`rollout.revisited`).
    """

    reference = REFERENCE
    overflows = "it squares the distance of values from returns"
    level = "turn"
    gamma: Number | None = None  # discount, in [0, 1]; None: the targets are the columns that `TurnCritic` writes
    latest: bool = False  # with gamma: by the target network at each update, instead of before the first
    replayed: bool = True  # with gamma: whether some rollouts are replayed, `group.fresh` being False there
    revisited: bool = False  # with gamma: whether some rollouts are revisited states
    aggregate: Aggregate = field(default=Aggregate("turn mean"), kw_only=True)
    trains: str = field(default="critic", kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, "gamma", 0, 1, optional=True)

    @property
    def needs(self) -> tuple[Need, ...]:
        if self.gamma is None:
            return (*NOW.values(), *(f"turn.{name}.target" for name in HEADS))
        slow = LATEST_TARGET if self.latest else TARGET
        kinds = (*(("group.fresh",) if self.replayed else ()), *((REVISITED,) if self.revisited else ()))
        return (*NOW.values(), *slow.values(), "turn.reward", "turn.done", *kinds)

    @property
    def couples(self) -> str:
        return "rollout"

    def targets(self, batch: Batch) -> dict[str, Tensor]:
        """[turn] the regression target of each head."""
        if self.gamma is None:
            return {name: batch[f"turn.{name}.target"] for name in HEADS}
        return targets(batch, float(self.gamma), LATEST_TARGET if self.latest else TARGET)

    def errors(self, batch: Batch) -> dict[str, Tensor]:
        """[turn] the squared error of each head."""
        targets_of, values = self.targets(batch), turn_values(batch, NOW, batch.trained("token"))
        errors = {name: (value - targets_of[name]).square() for name, value in values.items()}
        if self.gamma is None:
            return errors
        if self.replayed:
            fresh = batch.spread(batch["group.fresh"], "group", "turn")
            errors |= {name: errors[name].where(fresh, 0) for name in ("v1", "v2")}
        if self.revisited:
            played = ~batch.spread(batch[REVISITED], "rollout", "turn").bool()
            errors |= {name: errors[name].where(played, 0) for name in ("q1", "q2")}
        return errors

    def loss(self, batch: Batch) -> Tensor:
        return torch.stack(list(self.errors(batch).values())).sum(0)

    def diagnostics(self, batch: Batch) -> dict[str, Tensor]:
        return {f"critic.{name}": error for name, error in self.errors(batch).items()}


class TokenBaselineLoss(Term):
    """Regression of the token-level baseline on the advantage of the turn: (A − b_t)²."""

    reference = REFERENCE
    overflows = "it squares the distance of the baseline from the advantage"
    trains: str = field(default="critic", kw_only=True)

    @property
    def needs(self) -> tuple[Need, ...]:
        return ("turn.advantage", BASELINE)

    def loss(self, batch: Batch) -> Tensor:
        return (batch.spread(batch["turn.advantage"], "turn", "token") - batch[BASELINE]).square()
