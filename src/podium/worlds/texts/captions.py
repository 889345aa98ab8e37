"""Captions of a walk through a house: whether what happened brings one nearer to the gold."""

from __future__ import annotations

from functools import lru_cache
from random import Random

from podium.worlds.keydoor import KeyDoor
from podium.worlds.texts.exercise import Exercise, asked_once

__all__ = ["caption_question", "caption_verdict"]

FIRST, COUNT = 1_000_000, 1_000_000
HELPS, IDLE = ("take", "open"), ("go up", "take lamp", "wait")


@lru_cache(8)
def _house(level: int) -> KeyDoor:
    return KeyDoor(level=level)


def caption_question(caption: str) -> str:
    """What an annotator of captions is asked."""
    return f"You see:\n{caption}\nDoes this help to find the gold? Say yes or no."


def caption_verdict(rng: Random, level: int, split: str = "train") -> Exercise:
    """Whether the caption of a turn tells of something done: a key taken, a door opened, or the gold."""
    world = _house(level)
    task = world.task(FIRST + rng.randrange(COUNT), split)
    walk = world.demonstrate(task)
    episode, end = world.reset(task), rng.randrange(len(walk))
    for action in walk[:end]:
        episode.act(action)
    idle = rng.random() < 0.4
    action = rng.choice(IDLE) if idle else walk[end]
    helps = not idle and action.startswith(HELPS)
    caption = f"> {action}\n{episode.act(action).observation}"

    def write(rng: Random, right: float) -> str:
        return " yes" if helps == (rng.random() < right) else " no"

    return asked_once(caption_question(caption), write, lambda said: said.strip() == ("yes" if helps else "no"))
