"""Couplings: joint distributions with given marginals, through a bottleneck, and messages carried by actions.

X → T → Y under a rate R in bits: the code T is a function of X with H(T) ≤ R, and T and Y are coupled so that their
joint entropy is small. Entropies are in bits; ties go to the lower index.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from heapq import heapify, heappop, heappush

import numpy as np
from numpy.typing import NDArray

from podium.core.errors import PodiumError

__all__ = [
    "action_law",
    "posterior_after",
    "bits",
    "blocks_within",
    "bottleneck",
    "code_mass",
    "coupled",
    "moved",
    "mutual_information",
    "quantised",
    "through_blocks",
]

Floats = NDArray[np.float64]
Blocks = list[list[int]]
LEFT = 1e-12  # mass below which nothing is left to couple
ROUNDING = 1e-12  # of an entropy


def bits(p: Floats | Sequence[float]) -> float:
    """The entropy of masses, in bits."""
    mass = np.asarray(p, dtype=np.float64).ravel()
    mass = mass[mass > 0]
    return float(-(mass * np.log2(mass)).sum())


def mutual_information(joint: Floats) -> float:
    """I(X;Y) of a joint distribution, in bits."""
    return bits(joint.sum(1)) + bits(joint.sum(0)) - bits(joint)


def _checked(p: Floats | Sequence[float], name: str) -> Floats:
    mass = np.asarray(p, dtype=np.float64)
    if mass.ndim != 1 or not len(mass) or (mass < 0).any() or not math.isclose(mass.sum(), 1.0, abs_tol=1e-6):
        raise PodiumError(f"{name} must be probabilities that sum to 1, not {mass.tolist()}.")
    return mass


def blocks_within(p: Floats | Sequence[float], rate: float) -> Blocks:
    """The blocks of symbols that a code of at most `rate` bits tells apart, ordered by their lowest members.

    As long as the entropy exceeds the rate: if merging the two lightest blocks is enough, that is done; otherwise the
    two heaviest are merged for good. A symbol of mass 0 is in no block.
    """
    mass = _checked(p, "p")
    if rate < 0:
        raise PodiumError(f"A rate of {rate:g} bits is negative: give 0 or more.")
    members = {i: [i] for i, m in enumerate(mass) if m > 0}  # by the lowest member
    masses = {i: float(mass[i]) for i in members}
    entropy = bits(mass)
    heavy, light = [(-m, i) for i, m in masses.items()], [(m, i) for i, m in masses.items()]
    heapify(heavy)
    heapify(light)
    while entropy > rate + ROUNDING and len(members) > 1:
        lightest = _first_two(light, masses, 1.0)
        enough = entropy - _drop(*(masses[i] for i in lightest)) <= rate + ROUNDING
        a, b = sorted(lightest if enough else _first_two(heavy, masses, -1.0))
        entropy -= _drop(masses[a], masses[b])
        members[a] += members.pop(b)
        masses[a] += masses.pop(b)
        heappush(heavy, (-masses[a], a))
        heappush(light, (masses[a], a))
    return sorted(map(sorted, members.values()))


def _drop(a: float, b: float) -> float:
    """By how much the entropy falls when masses a and b become one."""
    return (a + b) * math.log2(a + b) - a * math.log2(a) - b * math.log2(b)


def _first_two(heap: list[tuple[float, int]], masses: dict[int, float], sign: float) -> list[int]:
    """The first two blocks of a heap that still exist with this mass; they stay in it."""
    found: list[tuple[float, int]] = []
    while len(found) < 2:
        one = heappop(heap)
        if masses.get(one[1]) == sign * one[0] and one not in found:
            found.append(one)
    for one in found:
        heappush(heap, one)
    return [i for _, i in found]


def quantised(p: Floats | Sequence[float], rate: float) -> Blocks:
    """Uniform quantisation: floor(2^rate) codes, each for a run of ceil(n / codes) neighbouring symbols."""
    n = len(_checked(p, "p"))
    width = math.ceil(n / max(int(2**rate + 1e-9), 1))
    return [list(range(first, min(first + width, n))) for first in range(0, n, width)]


def coupled(p: Floats | Sequence[float], q: Floats | Sequence[float]) -> Floats:
    """[p, q] a coupling of small entropy: the largest masses that are left get as much as both allow, and so on."""
    a, b = ([(-float(m), i) for i, m in enumerate(_checked(x, name)) if m > LEFT] for x, name in ((p, "p"), (q, "q")))
    joint = np.zeros((len(p), len(q)))
    heapify(a)
    heapify(b)
    while a and b:
        (of_a, i), (of_b, j) = heappop(a), heappop(b)
        mass = min(-of_a, -of_b)
        joint[i, j] += mass
        for heap, rest in ((a, (of_a + mass, i)), (b, (of_b + mass, j))):
            if rest[0] < -LEFT:
                heappush(heap, rest)
    return joint


def code_mass(p: Floats | Sequence[float], blocks: Blocks) -> Floats:
    """The mass of each block."""
    mass = np.asarray(p, dtype=np.float64)
    return np.array([mass[members].sum() for members in blocks])


def through_blocks(p: Floats, q: Floats, blocks: Blocks) -> Floats:
    """[p, q] p(x, y) = Σ_t p(x, t) p(y | t) for the code of these blocks, coupled with q."""
    mass = np.asarray(p, dtype=np.float64)
    code = code_mass(mass, blocks)
    of_code = coupled(code, q)
    joint = np.zeros((len(mass), of_code.shape[1]))
    for row, total, members in zip(of_code, code, blocks, strict=True):
        joint[members] = mass[members, None] * (row / total if total > 0 else 0.0)
    return joint


def bottleneck(p: Floats | Sequence[float], q: Floats | Sequence[float], rate: float) -> Floats:
    """[p, q] the coupling of p and q through a code of at most `rate` bits."""
    p, q = _checked(p, "p"), _checked(q, "q")
    return through_blocks(p, q, blocks_within(p, rate))


def action_law(joint: Floats, message: int) -> Floats:
    """The probabilities of actions for the sender of a message. Averaged over messages they are those of the policy."""
    row = joint[message]
    if row.sum() <= 0:
        raise PodiumError(f"Message {message} has probability 0: it cannot be sent.")
    return np.asarray(row / row.sum())


def posterior_after(joint: Floats, action: int) -> Floats:
    """The receiver's belief over messages after an action drawn from a message's row of the joint distribution."""
    column = joint[:, action]
    if column.sum() <= 0:
        raise PodiumError(f"Action {action} has probability 0 here: no message leads to it.")
    return np.asarray(column / column.sum())


def moved(joint: Floats, mass: float, more: bool) -> Floats:
    """[x, t] the matrix of a code between two functions, after a little mass has moved.

    For more rate, from the smallest cell of a column divided by its sum to a new column; for less, from the smallest
    cell of the lightest column to the heaviest one. The mass stays in its row.
    """
    table, totals = joint.copy(), joint.sum(0)
    if more:
        shares = np.where(table > 0, table / totals, np.inf)
        x, t = divmod(int(shares.argmin()), shares.shape[1])
        table, target = np.concatenate([table, np.zeros((len(table), 1))], 1), table.shape[1]
    else:
        t, target = int(np.where(totals > 0, totals, np.inf).argmin()), int(totals.argmax())
        x = int(np.where(table[:, t] > 0, table[:, t], np.inf).argmin())
    if not 0 <= mass <= table[x, t]:
        raise PodiumError(f"A mass of {mass:g} cannot move: the cell has {table[x, t]:g}.")
    table[x, t] -= mass
    table[x, target] += mass
    return table
