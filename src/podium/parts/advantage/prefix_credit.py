"""Credit of agents that act one after the other, by a critic that reads what those before them do."""

from __future__ import annotations

from torch import Tensor

from podium.core.batch import Batch
from podium.core.part import Advantage, Columns
from podium.core.signal import Signal

__all__ = ["PrefixCredit", "around_action"]

VALUE = Signal("value", of="old")


def around_action(batch: Batch, value: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
    """[turn] the critic's value at the first token of a turn, and at its last, which has seen the action."""
    places = (f("token", "turn", where=tokens) for f in (batch.first, batch.last))
    before, after = (batch.reduce(value, "token", "turn", "sum", where=place) for place in places)
    return before, after


class PrefixCredit(Advantage):
    """The local advantage of each agent's action, given the actions before it in the round:

        A^i = Q(s, a^1 … a^i) − Q(s, a^1 … a^(i−1)),   Q of the empty prefix being V(s)

    Q of a prefix is the expected return if the others act as usual. The sum over the agents of a round telescopes to
    the advantage of the joint action, whatever the order; the order decides how it is split.
    """

    reference = "READ, https://read-llm.github.io"
    needs = (VALUE,)
    provides = ("turn.advantage",)

    def local(self, before: Tensor, after: Tensor) -> Tensor:
        """The advantage of each action, from Q of the prefix without and with it."""
        return after - before

    def __call__(self, batch: Batch) -> Columns:
        return {"turn.advantage": self.local(*around_action(batch, batch[VALUE], batch.action))}
