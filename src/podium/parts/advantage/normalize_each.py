"""Several rewards, each normalised on its own before they are added: GDPO."""

from __future__ import annotations

from podium.core.batch import Batch
from podium.core.errors import PodiumError
from podium.core.normalize import Normalizer
from podium.core.part import Advantage, Columns, Need

__all__ = ["NormalizeEach"]


class NormalizeEach(Advantage, Normalizer):
    """Decoupled normalisation: A = Σ_k w_k (x_k − centre_k) / (scale_k + ε) over the rollouts of a group.

    A reward that varies much does not drown one that varies little, and groups in which the sum of rewards is equal,
    but not each reward, still have advantages. With one reward it is `Normalize`. The sum has no scale of its own:
    `Whiten` may follow.
    """

    reference = "GDPO: Group reward-Decoupled Normalization Policy Optimization, https://arxiv.org/abs/2601.05242"
    of: tuple[tuple[str, float], ...] = (("rollout.reward", 1.0),)  # columns of rollouts, and the weight of each
    key: tuple[str, ...] = ("group",)  # what is compared with each other: levels above, or full names of columns

    provides = ("rollout.advantage",)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.of or any(not column.startswith("rollout.") for column, _ in self.of):
            raise PodiumError(f"NormalizeEach.of = {self.of!r} must name columns of rollouts, such as rollout.correct.")

    @property
    def centred_within(self) -> tuple[str, ...]:
        return self.key if self.centre != "none" else ()

    @property
    def needs(self) -> tuple[Need, ...]:
        return (*(column for column, _ in self.of), *(k for k in self.key if "." in k))

    def __call__(self, batch: Batch) -> Columns:
        cells = batch.by("rollout", *self.key)
        each = [weight * self.normalized(cells, batch[column].to(batch.dtype)) for column, weight in self.of]
        return {"rollout.advantage": sum(each[1:], each[0])}
