"""Playing a world at the terminal."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TypeVar

from podium.core.errors import PodiumError
from podium.protocols.answer_text import ANSWER_MARK, final_answer
from podium.protocols.world import Answer, Feedback, World, task_of

__all__ = ["play"]

V = TypeVar("V")


def play(
    world: World,
    index: int = 0,
    read: Callable[[str], str] = input,
    write: Callable[[str], None] = print,
    *,
    split: str = "train",
    turns: int = 200,
) -> Feedback | None:
    """Play one task; `read` takes a prompt and returns a line. Returns None if the person leaves (end of input)."""
    if "instructions" in world.field_names():
        world = world.replace(instructions=True)
    task = task_of(world, index, split)
    episode = _tried(world, lambda: world.reset(task))
    write(episode.observation)
    total = 0.0
    for _ in range(turns):
        try:
            text = read("> ")
        except (EOFError, KeyboardInterrupt):
            return None
        if isinstance(world, Answer) and final_answer(text) is None:
            text = f"{ANSWER_MARK} {text}"  # a person need not type it
        feedback = _tried(world, partial(episode.act, text))
        total += feedback.reward
        if feedback.observation:
            write(feedback.observation)
        if feedback.done:
            break
    write(f"Reward {total:g}." + (" Right." if feedback.info.get("correct") else ""))
    with suppress(PodiumError):  # not every world has solutions
        write(f"A solution:\n{world.solve(task)}")
    return feedback


def _tried(world: World, do: Callable[[], V]) -> V:
    """Call a world, and turn its exceptions into a PodiumError."""
    try:
        return do()
    except (KeyboardInterrupt, PodiumError):
        raise
    except Exception as error:
        name = world.name or type(world).__name__
        raise PodiumError(f"The world {name!r} raised {type(error).__name__}: {error}.") from error
