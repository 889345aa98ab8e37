"""Where a rollout may fork: positions chosen by what the sampler said of its tokens."""

from __future__ import annotations

import math
from collections.abc import Sequence

from podium.core.errors import one_of, within
from podium.core.part import Need
from podium.core.signal import Signal
from podium.core.value import Value

__all__ = ["CriticalToken", "Cutpoints", "Places", "TopEntropy"]

ENTROPY, LOGP = Signal("entropy", of="sampler"), Signal("logp", of="sampler")


class Places(Value):
    """Chooses positions of one rollout; a fork there keeps the tokens before it and writes that one anew."""

    @property
    def needs(self) -> tuple[Need, ...]:
        """What the sampler must tell of each token, or the world of each text."""
        return ()

    @property
    def column(self) -> str:
        """The numbers that they are chosen by."""
        raise NotImplementedError

    @property
    def most(self) -> int:
        """How many there are in a long text."""
        return 1

    def __call__(self, numbers: Sequence[float], words: Sequence[str], draw: float) -> list[int]:
        """Positions in ascending order. `words` are the tokens' texts, a special token's is empty; `draw` a uniform
        number for those who choose by chance."""
        raise NotImplementedError


class Cutpoints(Places):
    """Every `every`-th of the tokens whose probability is below `below`, from the first on."""

    below: float = 0.9
    every: int = 5

    needs = (LOGP,)
    column = "sampler.logp"

    def __post_init__(self) -> None:
        within(self, "below", 0, 1, open_low=True)
        within(self, "every", 1)

    def __call__(self, numbers: Sequence[float], words: Sequence[str], draw: float) -> list[int]:
        return [t for t, logp in enumerate(numbers) if logp < math.log(self.below)][:: self.every]


class TopEntropy(Places):
    """The `points` positions with the highest entropy; of equal ones the earlier."""

    points: int = 2

    needs = (ENTROPY,)
    column = "sampler.entropy"

    def __post_init__(self) -> None:
        within(self, "points", 0)

    @property
    def most(self) -> int:
        return self.points

    def __call__(self, numbers: Sequence[float], words: Sequence[str], draw: float) -> list[int]:
        order = sorted(range(len(numbers)), key=lambda t: (-numbers[t], t))
        return sorted(order[: self.points])


class CriticalToken(Places):
    """One of the `candidates` positions with the highest entropy, drawn with equal chance; 0 where there is none.

    The first token is no candidate, nor is a special token or one with fewer characters beside white space.
    """

    candidates: int = 20
    characters: int = 2
    order: str = "entropy"  # random: any of the eligible ones

    needs = (ENTROPY,)
    column = "sampler.entropy"

    def __post_init__(self) -> None:
        within(self, "candidates", 1)
        within(self, "characters", 1)
        one_of(self, "order", ("entropy", "random"))

    def eligible(self, numbers: Sequence[float], words: Sequence[str]) -> list[int]:
        """The candidates, in falling entropy."""
        order = sorted(range(len(numbers)), key=lambda t: (-numbers[t], t))
        found = [t for t in order if t > 0 and len(words[t].strip()) >= self.characters]
        return found[: self.candidates] if self.order == "entropy" else found

    def __call__(self, numbers: Sequence[float], words: Sequence[str], draw: float) -> list[int]:
        found = self.eligible(numbers, words)
        return [found[int(draw * len(found))] if found else 0]
