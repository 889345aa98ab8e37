"""TODO A critic of whole turns, learned by temporal differences: two values of a state, two of a state and an action."""

from __future__ import annotations

from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.part import Annotate, Columns
from podium.core.schedule import Number
from podium.parts.objective.turn_critic import HEADS, OLD, REFERENCE, TARGET, bootstrapped, read, targets

__all__ = ["TurnCritic"]


class TurnCritic(Annotate):
    """`turn.q1`, `turn.v1`, …: what the critic says of each turn; and the targets that it learns from.

    y_j = r + gamma · V̄_j(next turn), and r alone where the episode is over; Q̄_j(this turn) for V_j. The barred ones are
    those of the slow copy, the role `target`; the two chains never mix.
    """

    reference = REFERENCE
    gamma: Number = 0.95

    needs = (*OLD.values(), *TARGET.values(), "turn.reward", "turn.done")
    provides = tuple(f"turn.{name}{kind}" for kind in ("", ".target") for name in HEADS)

    def __post_init__(self) -> None:
        within(self, "gamma", 0, 1)

    def targets(self, batch: Batch, after: Tensor) -> Tensor:
        """[turn] r + (1 − done) · gamma · V̄ of what comes after."""
        return bootstrapped(batch, after, float(self.gamma))

    def __call__(self, batch: Batch) -> Columns:
        values = {f"turn.{name}": value for name, value in read(batch, OLD, batch.action).items()}
        return values | {f"turn.{name}.target": x for name, x in targets(batch, float(self.gamma)).items()}
