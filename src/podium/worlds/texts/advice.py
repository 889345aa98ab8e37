"""Advice beside a question: a line of advice that the solution follows, two weights for quality and length, and
whether one can solve a task at all.

Careful advice helps and hasty advice harms: which lines to keep is something to find out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from random import Random
from typing import NamedTuple

from podium.protocols.world import Task
from podium.worlds.lookup import Lookup
from podium.worlds.puzzle import Puzzle
from podium.worlds.texts.exercise import Exercise, Response, any_other, asked_once
from podium.worlds.texts.puzzles import attempted, draw_puzzle

__all__ = [
    *("ADVICE", "SEARCH_ADVICE", "AdviceLine", "ability", "advised", "advised_search", "direction_prompt", "directed"),
    *("planned", "task_wanted", "weights_of", "with_advice", "with_experiences", "with_plan"),
]


class AdviceLine(NamedTuple):
    """What a line of advice does: the style that follows, and how much more careful it is."""

    text: str
    style: str = ""  # empty: any
    risk: float = 1.0  # the chance of a right solution is right ** risk


ADVICE = (
    AdviceLine("take small steps", "long", 0.4),
    AdviceLine("be careful", "short", 0.6),
    AdviceLine("check each step", "", 0.5),
    AdviceLine("be quick", "short", 2.0),
    AdviceLine("try another way", "other", 1.6),
    AdviceLine("do not think", "none", 2.5),
    AdviceLine("keep it neat"),
    AdviceLine("write the answer last"),
)
SEARCH_ADVICE = (
    AdviceLine("search each step before you answer", "long", 0.4),
    AdviceLine("cite the source", "cited", 0.7),
    AdviceLine("search when you do not know", "short", 0.8),
    AdviceLine("answer at once", "none", 3.0),
    AdviceLine("give up soon", "unknown", 1.0),
)
EXPERIENCES = "experiences:"
RANGE = 45  # degrees to either side of quality


def with_advice(prompt: str, *lines: str) -> str:
    """The question below lines of advice."""
    return "\n".join([*(f"advice: {line}" for line in lines), prompt])


def with_experiences(prompt: str, *lines: str) -> str:
    """The question above a numbered list of advice."""
    return "\n".join([prompt, EXPERIENCES, *(f"[G{number}]. {line}" for number, line in enumerate(lines))])


def advised(rng: Random, level: int, split: str = "train", lines: tuple[AdviceLine, ...] = ()) -> Exercise:
    """A puzzle with one to three lines of advice (given or random), in one of two forms."""
    world, task = draw_puzzle(rng, level, split)
    lines = lines or tuple(rng.sample(ADVICE, rng.choice((1, 1, 2, 3))))
    show = rng.choice((with_advice, with_experiences))

    def write(rng: Random, right: float) -> str:
        chance = right ** math.prod(line.risk for line in lines)
        style = next((line.style for line in lines if line.style), "")
        if style == "none":
            return attempted(world, task, "short", chance, rng).splitlines()[-1]
        styles = {"other": world.styles[2:], "": world.styles}.get(style, (style,))
        return attempted(world, task, rng.choice(styles), chance, rng)

    return asked_once(show(task.prompt, *(line.text for line in lines)), write, _grader(world, task))


def _grader(world: Puzzle, task: Task) -> Callable[[str], bool]:
    return lambda text: bool(world.grade(task, text).info["correct"])


def advised_search(rng: Random, level: int, split: str = "train", line: AdviceLine | None = None) -> Exercise:
    """A question of several hops below a line of advice."""
    world = Lookup(level=level)
    task = world.task(1_000_000 + rng.randrange(1_000_000), split)
    chosen = line or rng.choice(SEARCH_ADVICE)

    def demonstrate(rng: Random, right: float) -> tuple[str, ...]:
        if chosen.style == "unknown":
            return (*world.demonstrate(task)[: rng.randint(0, 1)][:-1], "answer: unknown")
        style = "short" if chosen.style == "none" else chosen.style
        turns = world.attempt(task, style, seed=rng.randrange(1_000_000), right=right**chosen.risk)
        return turns[-1:] if chosen.style == "none" else turns

    def respond(turns: Sequence[str]) -> Response:
        feedback, episode = None, world.reset(task)
        for text in turns:
            feedback = episode.act(text)
        assert feedback is not None
        return Response(feedback.observation, feedback.done, bool(feedback.info["correct"]))

    return Exercise(with_advice(task.prompt, chosen.text), demonstrate, respond)


# Two weights


def weights_of(angle: float) -> tuple[int, int]:
    """The weights of quality and length for an angle in degrees: a unit vector in hundredths."""
    return round(100 * math.cos(math.radians(angle))), round(100 * math.sin(math.radians(angle)))


def direction_prompt(prompt: str, quality: int, length: int) -> str:
    """A question whose answer is to maximise a weighted rating."""
    return f"maximize quality*{quality} + length*{length}\n{prompt}"


def directed(rng: Random, level: int, split: str = "train", angle: float | None = None) -> Exercise:
    """A puzzle for a direction: the more length weighs, the longer solutions are on average, and the less it weighs
    either way, the more often they are right."""
    world, task = draw_puzzle(rng, level, split, kinds=("sums", "order", "paint"))
    angle = rng.uniform(-RANGE, RANGE) if angle is None else angle
    quality, length = weights_of(angle)

    def write(rng: Random, right: float) -> str:
        longer = rng.random() < (angle + RANGE) / (2 * RANGE)
        style = "long" if longer else "short" if rng.random() < 0.7 else world.styles[2]
        return attempted(world, task, style, right ** (1.3 - 0.6 * (quality - 71) / 29), rng)

    return asked_once(direction_prompt(task.prompt, quality, length), write, _grader(world, task))


# What one can do


def ability(rng: Random, level: int, split: str = "train") -> Exercise:
    """`can you: …`: whether one can solve a task. Tasks of level 1 and 2 count as possible, 4 and 5 as not."""
    can = rng.random() < 0.5
    _, task = draw_puzzle(rng, rng.choice((1, 2) if can else (4, 5)), split, kinds=_ABLE)

    def write(rng: Random, right: float) -> str:
        return "yes" if can == (rng.random() < right) else "no"

    return asked_once(f"can you: {task.prompt}", write, lambda said: said.strip() == ("yes" if can else "no"))


_ABLE = ("sums", "order", "lamps")


def task_wanted(rng: Random, level: int, split: str = "train") -> Exercise:
    """Examples of what one can and cannot do, and the wish for another task of one of these kinds."""
    shown = []
    for can in rng.sample((True, False, True, False), 4):
        _, task = draw_puzzle(rng, rng.choice((1, 2) if can else (4, 5)), split, kinds=_ABLE)
        shown.append(f"{'can' if can else 'cannot'}: {task.prompt}")
    wanted = rng.choice(("can", "cannot"))

    def write(rng: Random, right: float) -> str:
        kind = wanted if rng.random() < right else any_other(rng, ("can", "cannot"), wanted)
        return draw_puzzle(rng, rng.choice((1, 2) if kind == "can" else (4, 5)), split, kinds=_ABLE)[1].prompt

    prompt = "\n".join([*shown, f"write a task: {wanted}"])
    return asked_once(prompt, write, lambda text: _difficulty(text) == wanted)


def _difficulty(question: str) -> str:
    """`can` or `cannot`, by the size of a question; empty: it is none."""
    kind, colon, rest = question.partition(": ")
    if not colon or "\n" in question:
        return ""
    if kind == "sum":
        terms = rest.replace("-", "+").split("+")
        if not all(term.isdigit() for term in terms):
            return ""
        return "can" if len(terms) <= 3 else "cannot" if len(terms) >= 5 or max(map(len, terms)) > 2 else ""
    if kind == "order":
        return {2: "can", 3: "can", 5: "cannot", 6: "cannot"}.get(len(rest.split(", ")), "")
    if kind == "lamps":
        return {3: "can", 4: "can", 6: "cannot", 7: "cannot"}.get(len(rest.split()), "")
    return ""


# A plan


def with_plan(prompt: str, steps: Sequence[str]) -> str:
    """The question with a plan: the steps of a solution without what comes out of them."""
    return "\n".join([prompt, "plan:", *steps])


def planned(rng: Random, level: int, split: str = "train") -> Exercise:
    """A puzzle with the plan of a short solution."""
    world, task = draw_puzzle(rng, level, split, kinds=("sums", "order", "paint"))
    steps = [line.partition("=")[0] for line in world.solve(task).splitlines()[:-1]]
    shown = steps if "=" in world.solve(task) else [f"{task.prompt.partition(':')[0]} step by step"]

    def write(rng: Random, right: float) -> str:
        return attempted(world, task, "short", right**0.7, rng)

    return asked_once(with_plan(task.prompt, shown), write, _grader(world, task))
