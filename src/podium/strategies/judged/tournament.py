"""Tournaments: which players a judge compares next, and how they stand in the end.

Each topology is a generator: it yields rounds of pairs of players, numbered from 0, gets for each pair the scores of
the two, and returns how all of them stand.

    standing = play(round_robin(4), lambda i, j: (quality[i], quality[j]))
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from itertools import combinations

__all__ = [
    "TOPOLOGIES",
    "Standing",
    "Tournament",
    "anchor",
    "double_elimination",
    "by_score",
    "play",
    "round_robin",
    "seeded_elimination",
    "swiss",
]

Pair = tuple[int, int]
Scores = tuple[float, float]


@dataclass(frozen=True)
class Standing:
    """How the players stand: [player] the rank, best 1, and the reward in [0, 1], best 1."""

    rank: tuple[int, ...]
    reward: tuple[float, ...]


Tournament = Generator[list[Pair], Sequence[Scores], Standing]
Round = Generator[list[Pair], Sequence[Scores], tuple[list[int], list[int]]]


def play(tournament: Tournament, duel: Callable[[int, int], Scores]) -> Standing:
    """The end of a tournament in which `duel(i, j)` gives the scores of two players."""
    try:
        pairs = next(tournament)
        while True:
            pairs = tournament.send([duel(i, j) for i, j in pairs])
    except StopIteration as end:
        standing: Standing = end.value
        return standing


def anchor(n: int) -> Tournament:
    """Each player against player 0, whose score is the mean of its own: n − 1 comparisons."""
    return by_score((yield from _against_first(n)))


def round_robin(n: int) -> Tournament:
    """Each pair once: n (n − 1) / 2 comparisons. A win is worth 1, a tie 1/2."""
    pairs = list(combinations(range(n), 2))
    points = [0.0] * n
    for (i, j), scores in zip(pairs, (yield pairs) if pairs else (), strict=True):
        points[i] += _won(*scores)
        points[j] += _won(*scores[::-1])
    return by_score(points)


def seeded_elimination(n: int) -> Tournament:
    """A knock-out in which the best seeds meet late: n − 1 comparisons with player 0 for seeding, n − 1 in the bracket.

    Neighbours in the bracket meet, and the left one wins ties. An odd one out moves to the front of the next round. Who
    loses in a later round stands higher; of those who lose in the same round, who has the higher mean score.
    """
    points = [[score] for score in (yield from _against_first(n))]
    seeds = sorted(range(n), key=lambda player: -_mean(points[player]))
    left, lost = [seeds[place] for place in bracket(n)], list[list[int]]()
    while len(left) > 1:
        odd = left[-1:] if len(left) % 2 else []
        winners, losers = yield from _knock_out(list(zip(left[::2], left[1::2], strict=False)), points)
        left = odd + winners
        lost.append(losers)
    return _by_exit(left, lost, points)


def swiss(n: int, seed: int = 0, rounds: int | None = None) -> Tournament:
    """Rounds in which players of about the same points meet: at most ⌈log2 n⌉ · ⌊n / 2⌋ comparisons.

    Nobody meets the same player twice while there is another; equal points are ordered by chance. With an odd number,
    the last one gets a point for nothing. Ties in points are broken by the sum of the opponents' (Buchholz), and those
    that remain share their rewards.
    """
    chance, points = random.Random(seed), [0.0] * n
    met: list[set[int]] = [set() for _ in range(n)]
    for _ in range(min(rounds or math.ceil(math.log2(max(n, 1))), n - 1)):
        order = chance.sample(range(n), n)
        order.sort(key=lambda player: -points[player])
        if n % 2:
            points[order.pop()] += 1
        pairs = _neighbours(order, met)
        for (i, j), scores in zip(pairs, (yield pairs), strict=True):
            points[i] += _won(*scores)
            points[j] += _won(*scores[::-1])
            met[i].add(j)
            met[j].add(i)
    keys = [(points[player], sum(points[other] for other in sorted(met[player]))) for player in range(n)]
    ranks = _ranks(keys)
    shared = [ranks.count(rank) for rank in ranks]
    # Players of rank r who are k stand at r, …, r + k − 1, and take the mean reward of these places.
    mean_place = [rank + (k - 1) / 2 for rank, k in zip(ranks, shared, strict=True)]
    return Standing(tuple(ranks), tuple((n - place) / max(n - 1, 1) for place in mean_place))


def double_elimination(n: int, seed: int = 0) -> Tournament:
    """A knock-out from which one drops at the second defeat, with pairs drawn by lot: 2 n − 2 comparisons.

    Those who lose once go on in a second bracket, whose winner meets that of the first.
    """
    chance, points = random.Random(seed), [list[float]() for _ in range(n)]
    left, drops = list(range(n)), list[list[int]]()
    while len(left) > 1:
        left, losers = yield from _by_lot(left, chance, points)
        drops.append(losers)
    again, lost = list[int](), list[list[int]]()
    for place, dropped in enumerate(drops, start=1):
        again += dropped
        while len(again) > 1:
            again, losers = yield from _by_lot(again, chance, points)
            lost.append(losers)
            if place < len(drops):
                break  # the losers of the next round join
    if again:
        left, losers = yield from _by_lot(left + again, chance, points)
        lost.append(losers)
    return _by_exit(left, lost, points)


# By name: how n players meet, with what chance there is from a seed.
TOPOLOGIES: dict[str, Callable[[int, int], Tournament]] = {
    "anchor": lambda n, seed: anchor(n),
    "round_robin": lambda n, seed: round_robin(n),
    "seeded": lambda n, seed: seeded_elimination(n),
    "swiss": swiss,
    "double_elimination": double_elimination,
}


def by_score(scores: Sequence[float]) -> Standing:
    """Ranks by score, of which equal ones get the best they could have, and rewards (R − rank) / (R − 1) with R the
    last rank; 0 if all tie."""
    ranks = _ranks(scores)
    last = max(ranks)
    return Standing(tuple(ranks), tuple((last - rank) / (last - 1) if last > 1 else 0.0 for rank in ranks))


def bracket(n: int) -> list[int]:
    """The order in which n seeds, best first, stand in a bracket: 0 and 1 meet last, 0 and the weakest first."""
    order = [0]
    while len(order) < n:
        order = [seed for i in order for seed in (i, 2 * len(order) - 1 - i)]
    return [seed for seed in order if seed < n]


def _against_first(n: int) -> Generator[list[Pair], Sequence[Scores], list[float]]:
    """[player] the score against player 0; its own is the mean over all of them."""
    if n == 1:
        return [0.0]
    scores = yield [(player, 0) for player in range(1, n)]
    return [_mean([first for _, first in scores]), *(own for own, _ in scores)]


def _knock_out(pairs: list[Pair], points: list[list[float]]) -> Round:
    """The winners and the losers of these pairs."""
    winners, losers = [], []
    for (i, j), (first, second) in zip(pairs, (yield pairs), strict=True):
        points[i].append(first)
        points[j].append(second)
        winners.append(i if first >= second else j)
        losers.append(j if first >= second else i)
    return winners, losers


def _by_lot(players: list[int], chance: random.Random, points: list[list[float]]) -> Round:
    """A round with pairs drawn by lot; an odd one out goes on."""
    drawn = chance.sample(players, len(players))
    odd = drawn[-1:] if len(drawn) % 2 else []
    winners, losers = yield from _knock_out(list(zip(drawn[::2], drawn[1::2], strict=False)), points)
    return odd + winners, losers


def _neighbours(order: Sequence[int], met: Sequence[set[int]]) -> list[Pair]:
    """Each with the next one in order that it has not met, or else with the next one."""
    waiting, pairs = list(order), list[Pair]()
    while waiting:
        player = waiting.pop(0)
        other = next((each for each in waiting if each not in met[player]), waiting[0])
        waiting.remove(other)
        pairs.append((player, other))
    return pairs


def _by_exit(winner: Sequence[int], lost: Sequence[Sequence[int]], points: Sequence[Sequence[float]]) -> Standing:
    """The winner, then who lost last, and of those who lost at once who has the higher mean score. No ties."""
    order = list(winner)
    for losers in reversed(lost):
        order += sorted(losers, key=lambda player: -_mean(points[player]))
    places = {player: place for place, player in enumerate(order)}
    n = len(places)
    return Standing(
        tuple(places[player] + 1 for player in range(n)),
        tuple((n - 1 - places[player]) / max(n - 1, 1) for player in range(n)),
    )


def _ranks(keys: Sequence[float] | Sequence[tuple[float, float]]) -> list[int]:
    """1 for the highest key; equal ones share the best rank that they could have."""
    ordered = sorted(keys, reverse=True)
    rank = {key: place for place, key in reversed(list(enumerate(ordered, start=1)))}
    return [rank[key] for key in keys]


def _won(mine: float, other: float) -> float:
    return 1.0 if mine > other else 0.5 if mine == other else 0.0


def _mean(numbers: Sequence[float]) -> float:
    return math.fsum(numbers) / len(numbers)
