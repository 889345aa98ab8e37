"""The loss of a critic of joint actions: its values before and after each action follow the return of the team."""

from __future__ import annotations

from dataclasses import field

from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.part import Need, stop_gradient
from podium.core.schedule import Number
from podium.core.signal import Signal
from podium.core.term import Aggregate, Term
from podium.parts.advantage.prefix_credit import around_action

__all__ = ["PrefixValueLoss"]

NOW = Signal("value", of="now", grad=True)


class PrefixValueLoss(Term):
    """Regression of the value of a state and of the first actions of a round on what the whole team earns from there:

        (Q(s, a^1 … a^(i−1)) − R)² + (Q(s, a^1 … a^i) − R)²,   R = Σ gamma^rounds · reward

    The remaining agents act as they did, so the value averages over what they usually do. The discount is of a round:
    turns of the same round are not discounted against each other.
    """

    reference = "READ, https://read-llm.github.io"
    overflows = "it squares the distance of values from returns"
    level = "turn"
    gamma: Number = 0.97  # discount of a round, in [0, 1]
    aggregate: Aggregate = field(default=Aggregate("turn mean"), kw_only=True)
    trains: str = field(default="critic", kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, "gamma", 0, 1)

    @property
    def needs(self) -> tuple[Need, ...]:
        return (NOW, "turn.reward", "turn.round")

    @property
    def couples(self) -> str:
        return "rollout"

    def returns(self, batch: Batch) -> Tensor:
        """[turn] what the team earns from the turn on."""
        reward, number = batch["turn.reward"], batch["turn.round"]
        later = batch.shift(number, "turn", by=-1) > number  # a new round begins after the turn
        decay = reward.new_ones(()).where(~later, float(self.gamma))
        return stop_gradient(batch.scan(reward, "turn", "rollout", decay=decay))

    def loss(self, batch: Batch) -> Tensor:
        returns = self.returns(batch)
        before, after = around_action(batch, batch[NOW], batch.trained("token"))
        return (before - returns).square() + (after - returns).square()
