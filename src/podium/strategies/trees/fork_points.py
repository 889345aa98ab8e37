"""Fork points: positions of a rollout, chosen by the entropy or probability of its tokens, where others branch off."""

from __future__ import annotations

import math
from collections.abc import Sequence

from podium.core.errors import one_of, within
from podium.core.part import Need
from podium.core.signal import Signal
from podium.core.value import Value

__all__ = ["CriticalToken", "Cutpoints", "ForkPoints", "TopEntropy"]

ENTROPY, LOGP = Signal("entropy", of="sampler"), Signal("logp", of="sampler")


class ForkPoints(Value):
    """Chooses fork points of one rollout; a fork keeps the tokens before the point and samples the rest anew."""

    @property
    def needs(self) -> tuple[Need, ...]:
        """The signals of the sampler that it reads."""
        return ()

    @property
    def column(self) -> str:
        """The column of tokens that holds the values it chooses by."""
        raise NotImplementedError

    @property
    def most(self) -> int:
        """How many points it chooses in a long text."""
        return 1

    def __call__(self, values: Sequence[float], texts: Sequence[str], u: float) -> list[int]:
        """Positions in ascending order, from the values and the texts of the tokens (empty for a special token) and a
        uniform random number."""
        raise NotImplementedError


class Cutpoints(ForkPoints):
    """Every `every`-th of the tokens whose probability is below `below`, beginning with the first."""

    below: float = 0.9  # probability
    every: int = 5

    needs = (LOGP,)
    column = "sampler.logp"

    def __post_init__(self) -> None:
        within(self, "below", 0, 1, open_low=True)
        within(self, "every", 1)

    def __call__(self, values: Sequence[float], texts: Sequence[str], u: float) -> list[int]:
        return [t for t, logp in enumerate(values) if logp < math.log(self.below)][:: self.every]


class TopEntropy(ForkPoints):
    """The `points` positions with the highest entropy; ties go to the earlier one."""

    points: int = 2

    needs = (ENTROPY,)
    column = "sampler.entropy"

    def __post_init__(self) -> None:
        within(self, "points", 0)

    @property
    def most(self) -> int:
        return self.points

    def __call__(self, values: Sequence[float], texts: Sequence[str], u: float) -> list[int]:
        order = sorted(range(len(values)), key=lambda t: (-values[t], t))
        return sorted(order[: self.points])


class CriticalToken(ForkPoints):
    """One of the `candidates` eligible positions with the highest entropy, drawn uniformly; 0 where there is none.

    The first token, special tokens and tokens with fewer than `characters` characters besides white space are not
    eligible.
    """

    candidates: int = 20
    characters: int = 2
    order: str = "entropy"  # entropy, or random: drawn from all eligible positions

    needs = (ENTROPY,)
    column = "sampler.entropy"

    def __post_init__(self) -> None:
        within(self, "candidates", 1)
        within(self, "characters", 1)
        one_of(self, "order", ("entropy", "random"))

    def eligible(self, values: Sequence[float], texts: Sequence[str]) -> list[int]:
        """The candidates, in descending order of entropy."""
        order = sorted(range(len(values)), key=lambda t: (-values[t], t))
        eligible = [t for t in order if t > 0 and len(texts[t].strip()) >= self.characters]
        return eligible[: self.candidates] if self.order == "entropy" else eligible

    def __call__(self, values: Sequence[float], texts: Sequence[str], u: float) -> list[int]:
        candidates = self.eligible(values, texts)
        return [candidates[int(u * len(candidates))] if candidates else 0]
