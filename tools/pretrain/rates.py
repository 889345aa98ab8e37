"""How often a model is right in each source of podium/tiny2's text, beside the model that it was made from."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any, NamedTuple

import numpy as np

from podium import worlds
from podium.worlds import Code, Puzzle, Task, World
from podium.worlds.texts.exercise import Exercise, Response
from podium.worlds.texts.subjects import SUBJECTS
from tools.pretrain.dials import SECOND
from tools.pretrain.formats import TAUGHT, Taught, world_of
from tools.pretrain.new_dials import NEW_WORLDS
from tools.pretrain.pictures import UNSURE
from tools.pretrain.table import Sampler

MOST_TURNS = 14
OLD_LEVELS = 4  # of the old worlds, that are to stay as they were
TOLERANCE = 0.03  # of an old world
START = (0.1, 0.6)  # of what is new


class Rate(NamedTuple):
    """The share of right answers of the model before training and after it."""

    name: str
    after: float
    before: float | None = None  # None: not measured, as it knows nothing of this

    @property
    def fits(self) -> bool:
        """Whether an old world has stayed what it was, or a new one leaves room."""
        if self.before is not None:
            return abs(self.after - self.before) <= TOLERANCE
        return START[0] <= self.after <= START[1]


def compare(before: Any, after: Any, tokenizer: Any, args: argparse.Namespace) -> list[Rate]:
    """The table, printed line by line."""
    first, second = (Sampler(model, tokenizer, args.eval_batch, args.seed) for model in (before, after))
    found = []
    print("source                    after   before", flush=True)
    for name, old, measure in _measures(args):
        if args.only and name.replace(" ", "-") not in args.only:
            continue
        rate = Rate(name, measure(second), measure(first) if old else None)
        found.append(rate)
        mark = "" if rate.fits else "  !"
        print(
            f"{name:<24}  {rate.after:<6.3f}  {'' if rate.before is None else f'{rate.before:.3f}':<6}{mark}",
            flush=True,
        )
    return found


def _measures(args: argparse.Namespace) -> list[tuple[str, bool, Callable[[Sampler], float]]]:
    tasks, n = args.eval_tasks, args.eval_episodes
    dials = {**{name: list(levels)[:OLD_LEVELS] for name, levels in SECOND.items()}, **NEW_WORLDS, **UNSURE}
    found: list[tuple[str, bool, Callable[[Sampler], float]]] = []
    for name, levels in dials.items():
        for level in levels:
            world, old = worlds.get(name, level=level), name in SECOND
            times = args.eval_samples if old and isinstance(world, Puzzle) else n
            found.append((f"{name} {level}", old, partial(_of_world, world=world, tasks=tasks, n=times)))
    for name, subject in SUBJECTS.items():
        for level in subject.levels:
            drawn = [subject.draw(Random(f"{name}/{level}/{i}"), level, "test") for i in range(tasks)]
            found.append(
                (f"{name} {level}", False, partial(_of_exercises, exercises=drawn * n, limit=subject.max_tokens))
            )
    for name, taught in TAUGHT.items():
        for level in taught.levels:
            found.append((f"{name} {level}", False, partial(_of_format, taught=taught, level=level, tasks=tasks, n=n)))
    return found


def _of_world(sampler: Sampler, world: World, tasks: int, n: int) -> float:
    asked = [world.task(i, "test") for i in range(tasks) for _ in range(n)]
    if isinstance(world, Code):
        return _of_programs(sampler, world, asked)
    return float(np.mean([outcome.correct for outcome in sampler.play(world, asked)]))


def _of_programs(sampler: Sampler, world: Code, tasks: list[Task]) -> float:
    """Programs that are one of the world's own solutions; `podium eval` runs the others too."""
    said = sampler([sampler.chat([task.prompt]) for task in tasks], world.max_tokens)
    right = [{world.solve(task, style).strip() for style in world.styles} for task in tasks]
    return float(np.mean([text.strip() in solutions for (text, _, _), solutions in zip(said, right, strict=True)]))


def _of_format(sampler: Sampler, taught: Taught, level: int, tasks: int, n: int) -> float:
    world = world_of(taught, level, Random(0))
    asked = [world.task(i, "test") for i in range(tasks) for _ in range(n)]
    played = sampler.play(world, asked, format=taught.format, context=taught.context)
    return float(np.mean([outcome.correct for outcome in played]))


def _of_exercises(sampler: Sampler, exercises: list[Exercise], limit: int) -> float:
    turns: list[tuple[str, ...]] = [()] * len(exercises)
    seen = [[exercise.prompt] for exercise in exercises]
    ends = [Response()] * len(exercises)
    live = list(range(len(exercises)))
    for _ in range(MOST_TURNS):
        said = sampler([sampler.chat(seen[i]) for i in live], limit)
        going = []
        for i, (text, _, _) in zip(live, said, strict=True):
            turns[i] = (*turns[i], text)
            ends[i] = exercises[i].respond(turns[i])
            seen[i] += [text, ends[i].text]
            if not ends[i].done:
                going.append(i)
        live = going
        if not live:
            break
    return float(np.mean([end.done and end.right for end in ends]))
