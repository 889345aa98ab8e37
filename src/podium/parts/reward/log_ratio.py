"""Token rewards from the log-ratio of two models: implicit process rewards and the KL penalty."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import PodiumError, within
from podium.core.part import Columns, Need, Reward
from podium.core.schedule import Number
from podium.core.signal import Signal

__all__ = ["LogRatio"]


class LogRatio(Reward):
    """Token reward c_t = coefficient · (log π_of − log π_against), 0 at tokens that the model did not write.

    With a reward model trained on outcomes as `of` it is an implicit process reward: partial sums are Q values, learned
    without labels of steps. With the old policy as `of` and a negative coefficient it is the KL penalty per token.
    """

    reference = "Free Process Rewards without Process Labels, https://github.com/PRIME-RL/ImplicitPRM"
    of: str = "old"  # old, or a role
    against: str = "ref"  # a role
    coefficient: Number = 1.0
    into: str = "token.reward.process"  # the column to write
    power: float = 1.0  # sharpens `against`: softmax(power · logits); above 0

    def __post_init__(self) -> None:
        within(self, "power", 0, open_low=True)
        if not self.into.startswith("token."):
            raise PodiumError(
                f"LogRatio.into = {self.into!r} must be a column of tokens, such as token.reward.process."
            )

    @property
    def needs(self) -> tuple[Need, ...]:
        return (Signal("logp", of=self.of), self._against)

    @property
    def _against(self) -> Signal:
        power: dict[str, Any] = {} if self.power == 1.0 else {"power": self.power}
        return Signal("logp", of=self.against, **power)

    @property
    def provides(self) -> tuple[str, ...]:
        return (self.into,)

    @property
    def neutral(self) -> LogRatio:
        return self.replace(coefficient=0.0)

    def log_ratio(self, batch: Batch) -> Tensor:
        """[token] log π_of − log π_against; 0 at the world's tokens."""
        ratio: Tensor = batch[Signal("logp", of=self.of)] - batch[self._against]
        return ratio.where(batch.action, 0)

    def __call__(self, batch: Batch) -> Columns:
        return {self.into: self.coefficient * self.log_ratio(batch)}
