"""Normalised rewards as advantages: GRPO and everything that differs from it by a setting."""

from __future__ import annotations

from podium.core.batch import Batch
from podium.core.normalize import Normalizer
from podium.core.part import Advantage, Columns, Need

__all__ = ["Normalize"]


class Normalize(Advantage, Normalizer):
    """Normalises a reward within the group: A = (x − centre) / (scale + ε) over the elements with the same key.

    The defaults are GRPO; scale = "none" is Dr. GRPO, a leave-one-out centre without a scale RLOO.
    """

    of: str = "rollout.reward"  # x; the advantage is written at its level
    key: tuple[str, ...] = ("group",)  # what is compared with each other: levels above, or full names of columns
    weight: str | None = None  # a column that weights rows in the centre, such as rollout.length
    baseline: str | None = None  # a column to subtract instead of the centre
    scope: tuple[str, ...] | None = None  # the key of the scale; () is the whole batch; None: the key of the centre
    scope_weight: str | None = None  # a column that weights rows in the scale
    trained_only: bool = False  # whether rows that are not trained, such as extra voters, stay out of the statistics

    @property
    def neutral(self) -> Normalize:
        """GRPO's, which treats groups of one and of equal rewards as this one does."""
        return Normalize(epsilon=self.epsilon, zero_scale=self.zero_scale, singleton=self.singleton)

    @property
    def level(self) -> str:
        """The level of x."""
        return self.of.partition(".")[0]

    @property
    def normalizes(self) -> bool:
        return self.scale != "none"

    @property
    def centred_within(self) -> tuple[str, ...]:
        return self.key if self.baseline is None and self.centre != "none" else ()

    @property
    def needs(self) -> tuple[Need, ...]:
        keys = [k for k in (*self.key, *(self.scope or ())) if "." in k]
        extra = [c for c in (self.weight, self.baseline, self.scope_weight) if c is not None]
        return (self.of, *keys, *extra)

    @property
    def provides(self) -> tuple[str, ...]:
        return (f"{self.level}.advantage",)

    def __call__(self, batch: Batch) -> Columns:
        level = self.level
        where = batch.trained(level, empty=True) if self.trained_only else None

        def column(name: str | None):  # type: ignore[no-untyped-def]
            return None if name is None else batch.spread(batch[name], name.partition(".")[0], level)

        advantage = self.normalized(
            batch.by(level, *self.key, where=where),
            batch[self.of],
            weight=column(self.weight),
            centre=column(self.baseline),
            scope=None if self.scope is None else batch.by(level, *self.scope, where=where),
            scope_weight=column(self.scope_weight),
        )
        return {f"{level}.advantage": advantage}
