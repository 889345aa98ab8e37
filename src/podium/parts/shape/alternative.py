"""A second advantage estimate beside the method's."""

from __future__ import annotations

from podium.core.batch import Batch
from podium.core.errors import PodiumError
from podium.core.part import Advantage, Columns, Need, Shape

__all__ = ["AlternativeAdvantage"]


class AlternativeAdvantage(Shape):
    """A second advantage estimate, that of `part`, in the columns `LEVEL.advantage.NAME`; the method's is unchanged.

    Later parts and terms can compare or combine the two.
    """

    part: Advantage
    name: str  # the last word of the columns' names

    def __post_init__(self) -> None:
        if not self.name.isidentifier():
            raise PodiumError(f"AlternativeAdvantage.name = {self.name!r} is not a word, such as 'median'.")

    @property
    def needs(self) -> tuple[Need, ...]:
        return self.part.needs

    @property
    def provides(self) -> tuple[str, ...]:
        return tuple(self._named(c) for c in self.part.provides if c.endswith(".advantage"))

    def _named(self, column: str) -> str:
        return f"{column}.{self.name}"

    def __call__(self, batch: Batch) -> Columns:
        return {self._named(c): x for c, x in self.part(batch).items() if c.endswith(".advantage")}
