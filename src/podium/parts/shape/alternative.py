"""A second opinion on the credit, under a name of its own."""

from __future__ import annotations

from podium.core.batch import Batch
from podium.core.errors import PodiumError
from podium.core.part import Advantage, Columns, Need, Shape

__all__ = ["AlternativeAdvantage"]


class AlternativeAdvantage(Shape):
    """The advantage that `part` gives, as `advantage.NAME` beside the method's own: for parts that compare the two."""

    part: Advantage
    name: str

    def __post_init__(self) -> None:
        if not self.name.isidentifier():
            raise PodiumError(f"Beside.name = {self.name!r} is not a word, such as 'median'.")

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
