"""The values of a turn-level critic and its temporal-difference targets."""

from __future__ import annotations

from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.part import Annotate, Columns
from podium.core.schedule import Number
from podium.parts.objective.turn_critic import HEADS, OLD, REFERENCE, TARGET, bootstrapped, targets, turn_values

__all__ = ["TurnCritic"]


class TurnCritic(Annotate):
    """Writes the turn critic's twin values Q_1, Q_2, V_1, V_2 (`turn.q1`, …) and their TD targets (`turn.q1.target`).

        target of Q_j = r + gamma · V̄_j(next turn), or r where the episode ends;  target of V_j = Q̄_j(this turn)

    Barred values come from the slowly updated target network, the role `target`; the twins never mix.
    """

    reference = REFERENCE
    gamma: Number = 0.95  # discount per turn, in [0, 1]

    needs = (*OLD.values(), *TARGET.values(), "turn.reward", "turn.done")
    provides = tuple(f"turn.{name}{kind}" for kind in ("", ".target") for name in HEADS)

    def __post_init__(self) -> None:
        within(self, "gamma", 0, 1)

    def targets(self, batch: Batch, after: Tensor) -> Tensor:
        """[turn] r + (1 − done) · gamma · V̄, `after` being the target value of the next turn."""
        return bootstrapped(batch, after, float(self.gamma))

    def __call__(self, batch: Batch) -> Columns:
        values = {f"turn.{name}": value for name, value in turn_values(batch, OLD, batch.action).items()}
        return values | {f"turn.{name}.target": x for name, x in targets(batch, float(self.gamma)).items()}
