"""From paired differences to verdicts: looks, corrections for many claims, and what could have been detected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import t as student_t  # type: ignore[import-untyped]
from scipy.stats import trim_mean

from podium.claims.spending import nominal_levels, sequential_p
from podium.core.errors import PodiumError

__all__ = [
    "ALPHA",
    "LOOKS",
    "PairedEvidence",
    "benjamini_hochberg",
    "decide",
    "paired_evidence",
    "holm",
    "one_sided_p",
    "settled",
]

LOOKS = (8, 12, 16)  # pairs of seeds
ALPHA = 0.05  # of each claim over its looks, and the false discovery rate over claims
SETTLED = 0.005  # a sequential p-value at which no further seeds are run: small enough to survive most corrections
POWER = 0.8


@dataclass(frozen=True)
class PairedEvidence:
    """What the differences of pairs say; positive is what was claimed."""

    pairs: int
    mean: float
    low: float  # of the interval at the level of this look
    high: float
    p_above: float  # sequential, that the effect is no more than what it must exceed
    p_below: float  # sequential, that it is at least the smallest that matters
    detectable: float  # the effect that so many pairs find in four of five repetitions
    worst: float  # the difference of the worst pair
    ahead: float  # the share of pairs that differ as claimed, ties as half: the probability of improvement
    middle: float  # the mean of the middle half of the differences


def one_sided_p(differences: Sequence[float], null: float) -> float:
    """Student's paired test of a mean difference no larger than `null`."""
    x = np.asarray(differences, dtype=float)
    if len(x) < 2:
        return 1.0
    scale = x.std(ddof=1) / np.sqrt(len(x))
    if scale == 0:
        return 0.0 if x.mean() > null else 1.0
    return float(student_t.sf((x.mean() - null) / scale, len(x) - 1))


def paired_evidence(
    differences: Sequence[float], null: float, smallest: float, looks: Sequence[int] = LOOKS
) -> PairedEvidence:
    """Of the pairs that complete a look: more than `null`? less than `smallest`? Pairs beyond it wait for the next."""
    reached = [n for n in looks if n <= len(differences)]
    if not reached:
        raise PodiumError(f"{len(differences)} pairs are fewer than the first look needs, {looks[0]}.")
    shares = tuple(n / looks[-1] for n in looks)
    x = np.asarray(differences[: reached[-1]], dtype=float)
    # A one-sided test in each direction spends half of α; p-values are doubled to be held against two-sided levels.
    above = [min(1.0, 2 * one_sided_p(x[:n].tolist(), null)) for n in reached]
    below = [min(1.0, 2 * one_sided_p((-x[:n]).tolist(), -smallest)) for n in reached]
    level = nominal_levels(shares, ALPHA)[len(reached) - 1]
    scale, freedom = float(x.std(ddof=1) / np.sqrt(len(x))), len(x) - 1
    reach = float(student_t.isf(level / 2, freedom))
    return PairedEvidence(
        len(x),
        float(x.mean()),
        float(x.mean()) - reach * scale,
        float(x.mean()) + reach * scale,
        sequential_p(above, shares),
        sequential_p(below, shares),
        (reach + float(student_t.isf(1 - POWER, freedom))) * scale,
        float(x.min()),
        float((x > 0).mean() + (x == 0).mean() / 2),
        float(trim_mean(x, 0.25)),
    )


def settled(found: PairedEvidence, looks: Sequence[int] = LOOKS) -> bool:
    """Whether no further seeds are needed."""
    return found.pairs >= looks[-1] or min(found.p_above, found.p_below) <= SETTLED


def benjamini_hochberg(p: Mapping[str, float], rate: float = ALPHA) -> set[str]:
    """What is discovered at a false discovery rate: all up to the largest rank k with p_(k) ≤ k · rate / m."""
    order = sorted(p, key=lambda name: p[name])
    last = max((k for k, name in enumerate(order, 1) if p[name] <= k * rate / len(order)), default=0)
    return set(order[:last])


def holm(p: Mapping[str, float], rate: float = ALPHA) -> set[str]:
    """What is found with a probability of at most `rate` of a single false one: from the smallest p on, while
    p_(k) ≤ rate / (m − k + 1)."""
    found: set[str] = set()
    for k, name in enumerate(sorted(p, key=lambda name: p[name])):
        if p[name] > rate / (len(p) - k):
            break
        found.add(name)
    return found


def decide(measured: Mapping[str, PairedEvidence]) -> dict[str, str]:
    """The verdict of each claim among all that were measured: shown, refuted or not shown; with a star where it holds
    by Holm's correction, too. An effect that is there but smaller than what matters is refuted."""
    above = {name: e.p_above for name, e in measured.items()}
    below = {name: e.p_below for name, e in measured.items()}
    verdicts = {}
    for name in measured:
        for word, p in (("refuted", below), ("shown", above)):
            if name in benjamini_hochberg(p):
                verdicts[name] = word + ("*" if name in holm(p) else "")
                break
        else:
            verdicts[name] = "not shown"
    return verdicts
