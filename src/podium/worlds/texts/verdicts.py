"""Judging: which of two attempts is better, by how much, and how good one attempt is.

Styles are crossed with rightness, so that the longer attempt is as often wrong as right; a short verdict that errs
errs for the longer one. A long verdict checks line by line.
"""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from podium.protocols.answer_text import ANSWER_MARK
from podium.protocols.verdict_text import (
    MEETS,
    PAIR_QUESTION,
    POINT_QUESTION,
    POINTS,
    SCALE,
    SCALED_QUESTION,
    VERDICT,
    judge_prompt,
    read_verdict,
)
from podium.protocols.world import Task
from podium.worlds.puzzle import Puzzle
from podium.worlds.texts.exercise import Exercise, any_other, asked_once
from podium.worlds.texts.puzzles import attempted, draw_puzzle, wrongly

__all__ = [
    *("STEP_QUESTION", "AttemptPair", "draw_pair", "pair_prompt", "pair_verdict"),
    *("scaled_verdict", "checked_lines", "point_verdict", "step_verdict", "criterion_verdict"),
]

LABELS = tuple(map(int, SCALE))
CHECKED = ("sums", "sums", "order", "paint", "lamps")  # puzzles with one solution a style, checked line by line
LONG = 0.4  # share of verdicts that check line by line
# What a judge of steps asks of a role (strategies.teachers.step_scores).
STEP_QUESTION = "{question}\nThe beginning of an answer:\n{answer}\nIs its last step right? Say yes or no."


class AttemptPair(NamedTuple):
    """Two attempts at a puzzle."""

    world: Puzzle
    task: Task
    texts: tuple[str, str]
    label: int  # -3 … 3 without 0: how much better the second one is

    @property
    def better(self) -> str:
        return "A" if self.label < 0 else "B"

    @property
    def longer(self) -> str:
        return "A" if len(self.texts[0]) >= len(self.texts[1]) else "B"


def draw_pair(world: Puzzle, task: Task, rng: Random, alike: float = 0.0) -> AttemptPair:
    """A right and a wrong attempt in random order, each in a random style.

    The better one is better by 3 if the other's first line is wrong already, by 2 if a later one is. With probability
    `alike` both are right, and the shorter one is better by 1.
    """
    style, other = (rng.choice(world.styles) for _ in range(2))
    good = attempted(world, task, style, 1.0, rng)
    if rng.random() < alike:
        shorter, longer = sorted((good, attempted(world, task, any_other(rng, world.styles, style), 1.0, rng)), key=len)
        good, bad, strength = shorter, longer, 1
    else:
        bad = wrongly(world, task, other, rng)
        strength = 2 if world.step_scores(task, bad)[0] else 3
    first = rng.random() < 0.5
    return AttemptPair(world, task, (good, bad) if first else (bad, good), -strength if first else strength)


def pair_prompt(question: str, first: str, second: str, scaled: bool = False) -> str:
    """What a judge of two attempts is asked."""
    ask = SCALED_QUESTION if scaled else PAIR_QUESTION
    return judge_prompt(ask, question=question, left=first, right=second)


def pair_verdict(rng: Random, level: int, split: str = "train", style: str = "") -> Exercise:
    """Which of two attempts is better; `style` short names it at once, long checks both, empty: either.

    A short verdict knows with probability `right` and else takes the longer attempt; a long one is right with
    probability (1 + √right) / 2.
    """
    pair = draw_pair(*draw_puzzle(rng, level, split, CHECKED), rng)

    def write(rng: Random, right: float) -> str:
        if style == "long" or (not style and rng.random() < LONG):
            return _checked(pair, rng, (1 + right**0.5) / 2)
        return f"{VERDICT} {pair.better if rng.random() < right else pair.longer}"

    prompt = pair_prompt(pair.task.prompt, *pair.texts)
    return asked_once(prompt, write, lambda text: read_verdict(text) == pair.better)


def scaled_verdict(rng: Random, level: int, split: str = "train") -> Exercise:
    """How much better the second of two attempts is."""
    pair = draw_pair(*draw_puzzle(rng, level, split, CHECKED), rng, alike=0.3)

    def write(rng: Random, right: float) -> str:
        said = pair.label if rng.random() < right else any_other(rng, LABELS, pair.label)
        lines = checked_lines(pair, rng, said == pair.label) if rng.random() < LONG else []
        return "\n".join([*lines, f"{VERDICT} {said}"])

    prompt = pair_prompt(pair.task.prompt, *pair.texts, scaled=True)
    return asked_once(prompt, write, lambda text: read_verdict(text) == str(pair.label))


def _checked(pair: AttemptPair, rng: Random, right: float) -> str:
    correct = rng.random() < right
    said = pair.better if correct else any_other(rng, "AB", pair.better)
    return "\n".join([*checked_lines(pair, rng, correct), f"{VERDICT} {said}"])


def checked_lines(pair: AttemptPair, rng: Random, correct: bool) -> list[str]:
    """The lines of both attempts, up to the first that is wrong; an incorrect check misses it, and half of them find
    fault with the better attempt."""
    lines: list[str] = []
    for name, text in zip("AB", pair.texts, strict=True):
        scores = pair.world.step_scores(pair.task, text)
        if not correct:
            blamed = name == pair.better and rng.random() < 0.5
            scores = (1.0,) * rng.randrange(len(scores) - 1) + (0.0,) if blamed else (1.0,) * len(scores)
        judged = list(zip(text.splitlines(), scores, strict=False))
        if all(scores):  # the answer follows from the rest
            judged.pop()
        end = next((place for place, score in enumerate(scores, 1) if not score), len(judged))
        lines += [f"{name} {line} {'yes' if score else 'no'}" for line, score in judged[:end]]
    return lines


# One attempt


def point_verdict(rng: Random, level: int, split: str = "train") -> Exercise:
    """How good an attempt is: 10 if it is right, else below 8 by the share of its lines that are."""
    world, task = draw_puzzle(rng, level, split, CHECKED)
    style = rng.choice(world.styles)
    text = attempted(world, task, style, 1.0, rng) if rng.random() < 0.5 else wrongly(world, task, style, rng)
    scores = world.step_scores(task, text)
    score = 10 if world.grade(task, text).info["correct"] else int(8 * sum(scores) / len(scores))
    prompt = judge_prompt(POINT_QUESTION, question=task.prompt, answer=text)

    def write(rng: Random, right: float) -> str:
        return f"{VERDICT} {score if rng.random() < right else any_other(rng, (0, 2, 4, 5, 6, 10), score)}"

    return asked_once(prompt, write, lambda said: read_verdict(said, POINTS) == str(score))


def step_verdict(rng: Random, level: int, split: str = "train") -> Exercise:
    """Whether the last line of the beginning of an attempt is right."""
    world, task = draw_puzzle(rng, level, split, CHECKED)
    style, good = rng.choice(world.styles), rng.random() < 0.5
    text = attempted(world, task, style, 1.0, rng) if good else wrongly(world, task, style, rng)
    scores, lines = world.step_scores(task, text), text.splitlines()
    end = rng.randint(1, len(lines)) if good else next(n for n, s in enumerate(scores, 1) if not s)
    prompt = STEP_QUESTION.format(question=task.prompt, answer="\n".join(lines[:end]))
    return _yes_or_no(prompt, bool(scores[end - 1]))


def criterion_verdict(rng: Random, level: int, split: str = "train") -> Exercise:
    """Whether an attempt meets one of its world's criteria."""
    world, task = draw_puzzle(rng, level, split, CHECKED)
    text = attempted(world, task, rng.choice(world.styles), 0.5, rng)
    if rng.random() < 0.2:
        text = text.replace(ANSWER_MARK, "so")
    number = rng.randrange(len(world.criteria(task)))
    asked = {"question": task.prompt, "answer": text, "criterion": world.criteria(task)[number].text}
    return _yes_or_no(judge_prompt(MEETS, **asked), world.met(task, text)[number])


def _yes_or_no(prompt: str, truth: bool) -> Exercise:
    def write(rng: Random, right: float) -> str:
        return " yes" if truth == (rng.random() < right) else " no"

    return asked_once(prompt, write, lambda said: said.strip() == ("yes" if truth else "no"))
