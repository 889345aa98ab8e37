"""The batches on which a part is tried."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from podium.core.batch import Batch
from podium.core.errors import PodiumError
from podium.core.part import Columns
from podium.testing.subject import attempt
from podium.testing.synthetic import ORDINARY, Scene, SceneRules, names, synthetic

__all__ = ["Bench", "BenchPlace"]

BenchPlace = tuple[Scene, int]  # a scene and a seed


@dataclass
class Bench:
    """Draws batches for a part, and remembers what came of them."""

    columns: SceneRules | None = None  # how to draw columns that need care
    scenes: Sequence[Scene] = ORDINARY
    seeds: Sequence[int] = (0, 1)  # of the search for settings that matter; claims are put to the first
    _memo: dict[tuple[int, BenchPlace], tuple[Any, Columns | PodiumError]] = field(default_factory=dict)

    def places(self) -> list[BenchPlace]:
        return [(scene, seed) for seed in self.seeds for scene in self.scenes]

    def batch(self, part: Any, scene: Scene, seed: int = 0) -> Batch:
        return synthetic(scene, names(part), seed, self.columns)

    def attempt(self, part: Any, place: BenchPlace) -> Columns | PodiumError:
        """The part's outcome there, or its refusal; worked out once."""
        key = (id(part), place)
        if key not in self._memo:
            # The part is kept with its outcome, so that its id cannot be given to another one.
            self._memo[key] = (part, attempt(part, self.batch(part, *place)))
        return self._memo[key][1]

    def accepted(self, part: Any) -> list[tuple[BenchPlace, Batch]]:
        """The ordinary batches that the part does not refuse."""
        return [
            (place, self.batch(part, *place))
            for place in self.places()[: len(self.scenes)]
            if not isinstance(self.attempt(part, place), PodiumError)
        ]
