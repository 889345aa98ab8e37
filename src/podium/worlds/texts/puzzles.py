"""The puzzles that other exercises are about: sums, countdown, and all domains of rules but one."""

from __future__ import annotations

from functools import lru_cache
from random import Random

from podium.protocols.world import Task
from podium.worlds.countdown import Countdown
from podium.worlds.puzzle import Puzzle
from podium.worlds.rules import DOMAINS, Rules
from podium.worlds.sums import Sums

__all__ = ["UNSEEN_DOMAIN", "attempted", "draw_puzzle", "puzzle_of", "wrongly"]

# No exercise speaks of this domain of `rules`, so that a study of transfer has one that is new in any other form.
UNSEEN_DOMAIN = "liars"
KINDS = ("sums", "sums", "countdown", *(name for name in DOMAINS if name != UNSEEN_DOMAIN))
FIRST, COUNT = 1_000_000, 1_000_000  # tasks of the training split that no training run begins with
SELDOM_RIGHT = 0.2  # so that a wrong attempt may go wrong at any of its steps


@lru_cache(64)
def puzzle_of(kind: str, level: int) -> Puzzle:
    """The world of a kind of puzzle: sums, countdown or a domain of rules."""
    if kind == "sums":
        return Sums(level=level)
    return Countdown(level=level) if kind == "countdown" else Rules(level=level, domain=kind)


def draw_puzzle(rng: Random, level: int, split: str = "train", kinds: tuple[str, ...] = KINDS) -> tuple[Puzzle, Task]:
    """A world and one of its tasks."""
    world = puzzle_of(rng.choice(kinds), level)
    return world, world.task(FIRST + rng.randrange(COUNT), split)


def attempted(world: Puzzle, task: Task, style: str, right: float, rng: Random) -> str:
    """An attempt that is right with this probability."""
    return world.attempt(task, style, seed=rng.randrange(FIRST), right=right)


def wrongly(world: Puzzle, task: Task, style: str, rng: Random) -> str:
    """A wrong attempt."""
    while True:
        text = attempted(world, task, style, SELDOM_RIGHT, rng)
        if not world.grade(task, text).info["correct"]:
            return text
