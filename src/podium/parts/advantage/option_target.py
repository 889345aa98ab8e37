"""Advantages over options of several turns, each discounted once."""

from __future__ import annotations

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.part import Advantage, Columns
from podium.core.schedule import Number
from podium.parts.advantage.returns import VALUE

__all__ = ["OptionTarget"]


class OptionTarget(Advantage):
    """Advantages of turns over options of n turns, with one discount per option.

        q_t = r_t + … + r_{t+n−1} + gamma · V_{t+n},  A_t = q_t − V_t

    V_t is the critic's value at the first token of turn t, and 0 after the end. All tokens of a turn get its advantage,
    and the critic learns q. n = 1 is the temporal difference of turns; with n at least the number of turns, q is the
    whole return, undiscounted. For long episodes, in which a discount per turn would leave nothing of a far reward.
    """

    reference = "Option-aware Temporally Abstracted Value, https://arxiv.org/abs/2505.12737"
    steps: int = 5  # n, turns of an option, ≥ 1
    gamma: Number = 0.99  # discount per option, in [0, 1]

    needs = ("token.reward", VALUE)
    provides = ("token.advantage", "token.return")

    def __post_init__(self) -> None:
        within(self, "steps", 1)
        within(self, "gamma", 0, 1)

    def __call__(self, batch: Batch) -> Columns:
        action = batch.action
        first = batch.first("token", "turn", where=action)
        value = batch.reduce(batch[VALUE], "token", "turn", "sum", where=first)
        left = batch.scan(batch.reduce(batch["token.reward"], "token", "turn", "sum"), "turn", "rollout", decay=1.0)
        later, ends = (batch.shift(x, "turn", "rollout", by=-self.steps) for x in (left, value))
        target = left - later + float(self.gamma) * ends
        advantage, returns = (batch.spread(x, "turn", "token").where(action, 0) for x in (target - value, target))
        return {"token.advantage": advantage, "token.return": returns}
