"""How much of each world and level is in the text, how much of that is right, and how it is written."""

from __future__ import annotations

from typing import NamedTuple

from podium import worlds
from podium.worlds import World


class Dial(NamedTuple):
    share: float  # of the training text
    right: float = 1.0  # share of its solutions that are right
    gives_up: float = 0.0  # share of the wrong conversations that end in `answer: unknown`
    careless: bool = False  # whether several steps may go wrong: who cannot see that one has is wrong more surely


DIALS: dict[str, dict[int, Dial]] = {
    "echo": {1: Dial(1, 0.45), 2: Dial(1, 0.35), 3: Dial(1, 0.25), 4: Dial(1, 0.10)},
    "sums": {1: Dial(3, 0.55), 2: Dial(4, 0.40), 3: Dial(4, 0.22), 4: Dial(3, 0.08), 5: Dial(4, 0.015)},
    "countdown": {1: Dial(4, 0.60), 2: Dial(8, 0.55), 3: Dial(8, 0.40), 4: Dial(5, 0.25), 5: Dial(4, 0.03)},
    "rules": {1: Dial(3, 0.55), 2: Dial(3, 0.40), 3: Dial(3, 0.22), 4: Dial(3, 0.08), 5: Dial(3, 0.012)},
    "keydoor": {level: Dial(0.7) for level in range(1, 6)},  # goes wrong as STRAY says
    "lookup": {1: Dial(1, 0.45), 2: Dial(1, 0.35), 3: Dial(1, 0.20), 4: Dial(1.5, 0.005)},
    "tools": {1: Dial(1, 0.45), 2: Dial(1, 0.35), 3: Dial(1, 0.20), 4: Dial(1.5, 0.005)},
    # One cannot see how much a user keeps back, so that the many of level 4 make the others careless too.
    "clarify": {1: Dial(1, 0.55), 2: Dial(1, 0.45), 3: Dial(1, 0.40), 4: Dial(3, 0.0003)},
}

# The second stage: a small model is slow to see how hard a question is, so it reads more of the hardest ones.
SECOND: dict[str, dict[int, Dial]] = {
    "echo": {**DIALS["echo"], 4: Dial(4, 0.003, careless=True)},
    "sums": {**DIALS["sums"], 5: Dial(12, 0.001, careless=True)},
    "countdown": {**DIALS["countdown"], 3: Dial(8, 0.45), 4: Dial(5, 0.32), 5: Dial(8, 0.005, careless=True)},
    "rules": {**DIALS["rules"], 5: Dial(10, 0.0005, careless=True)},
    "keydoor": {**DIALS["keydoor"], 5: Dial(1.4)},
    "lookup": {1: Dial(2, 0.45, 0.1), 2: Dial(2, 0.35, 0.1), 3: Dial(2, 0.20, 0.1), 4: Dial(8, 0.002, 0.97)},
    "tools": {1: Dial(2, 0.45, 0.1), 2: Dial(2, 0.35, 0.1), 3: Dial(2, 0.20, 0.1), 4: Dial(7, 0.002, 0.9)},
    "clarify": {1: Dial(2, 0.55), 2: Dial(2, 0.45), 3: Dial(2, 0.40), 4: Dial(14, 0.0001, 0.5, careless=True)},
}
STAGES = {1: DIALS, 2: SECOND}


class Manner(NamedTuple):
    share: float
    risk: float = 1.0  # the chance of a right solution is right ** risk: below 1 is more careful than others


# How solutions are written, and which ways go wrong more often: which way to go is itself something to learn.
STYLES: dict[str, dict[str, Manner]] = {
    "echo": {"short": Manner(3, 1.0), "long": Manner(1, 0.8), "backward": Manner(1, 1.3)},
    "sums": {"short": Manner(4, 1.0), "long": Manner(2, 0.8), "grouped": Manner(2, 1.0), "columns": Manner(2, 1.4)},
    "countdown": {"short": Manner(4, 1.0), "long": Manner(3, 0.8), "backward": Manner(3, 1.2)},
    "rules": {"short": Manner(4, 1.0), "long": Manner(3, 0.8), "alternative": Manner(3, 1.3)},
    "keydoor": {"short": Manner(4), "long": Manner(2), "alternative": Manner(4)},
    "lookup": {"short": Manner(5, 1.0), "long": Manner(2, 0.8), "cited": Manner(3, 1.2)},
    "tools": {"short": Manner(5, 1.0), "long": Manner(2, 0.8), "parallel": Manner(3, 1.2)},
    "clarify": {"short": Manner(5, 1.0), "long": Manner(2, 0.8), "backward": Manner(3, 1.2)},
}
# Worlds that podium/tiny has not read, in the same manner.
STYLES |= {
    "cases": {"short": Manner(4, 1.0), "long": Manner(3, 0.8), "alternative": Manner(2, 1.2), "loose": Manner(1, 1.2)},
    "opinions": {"short": Manner(4, 1.0), "long": Manner(3, 0.8), "alternative": Manner(2, 1.2), "varied": Manner(1)},
    "shop": {"short": Manner(4, 1.0), "long": Manner(3, 0.8), "alternative": Manner(3, 1.2)},
    "trips": {"short": Manner(1)},
    "code": {"short": Manner(6, 1.0), "long": Manner(3, 1.0), "fast": Manner(1, 1.0)},
}
DOMAIN_RISK = {"paint": 0.7, "order": 0.9, "lamps": 1.1, "liars": 1.4}

# What may stand beside a question (worlds.scaffold), of the questions with one answer.
HINTED = 0.08  # the first lines of a solution; what is given cannot go wrong
HELPED = 0.03  # the least chance of a right solution after a hint, to the power of what is not given
TRIED = 0.03  # an earlier attempt
TRIED_RIGHT = 0.3  # share of those attempts that are right
AFTER_ATTEMPT = 0.6  # the chance of a right solution after one is right ** this

# keydoor: the chance that a turn strays, by the keys that one has: who holds many is confused.
STRAY = (0.55, 0.62, 0.68, 0.62, 0.96)
IDLE = (0.5, 0.5, 0.5, 0.5, 0.95)  # share of those turns that do nothing at all; the others do something at random

POINTLESS = 0.04  # the chance that a turn of the other conversations is preceded by one that belongs to another task
ADVERSE = 0.15  # share of them in which a search misses, a tool is down, a user is unsure
ADVERSITY = {"lookup": {"miss": 0.3}, "tools": {"down": 0.25}, "clarify": {"unsure": 0.3}}
REBUILT = 0.12  # share of all conversations of which the model sees the task, a recap and the last observation


def worlds_of_text(only: list[str] | None = None, stage: int = 1) -> list[tuple[World, Dial]]:
    dials = STAGES[stage].items()
    named = {f"{name}-{level}": (name, level, dial) for name, levels in dials for level, dial in levels.items()}
    chosen = {key: found for key, found in named.items() if not only or key in only}
    return [(worlds.get(name, level=level), dial) for name, level, dial in chosen.values()]
