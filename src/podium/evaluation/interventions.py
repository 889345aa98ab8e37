"""Interventions on a problem: what a plan, the knowledge that is needed, and its subproblems are worth to a model.

The axes of SPARKLE. A world writes the help (`World.plan`, `World.knowledge`, `World.subproblems`); the effect of one
is the accuracy with it minus the accuracy without.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from podium.collect.driver import Driver
from podium.core.errors import PodiumError, nearest
from podium.evaluation.resample import Array, Measure, estimate
from podium.protocols.scaffold import Scaffold
from podium.protocols.world import World
from podium.strategies.requests import Plan, Play, Request, TaskRequest, rollouts_of

__all__ = ["AXES", "Answers", "Interventions", "answers", "check_axes"]

PLAN, KNOWLEDGE, SUBPROBLEMS = AXES = ("plan", "knowledge", "subproblems")
PLAIN = "no help"


@dataclass(frozen=True)
class Answers:
    """Which answers of a model were right."""

    right: Mapping[str, Array]  # [task, sample] without help, and with a plan or knowledge
    parts: Sequence[Array] = ()  # by task, [subproblem, sample]


@dataclass(frozen=True)
class Interventions:
    """A trained model beside the one that it began as, with the same help and the same random streams."""

    base: Answers
    trained: Answers

    def measures(self) -> dict[str, tuple[Measure, Measure, Measure]]:
        """For the base, the trained model, and the second minus the first task by task."""
        sides = [_columns(side) for side in (self.base, self.trained)]
        return {name: _row(sides[0][name], sides[1][name], name) for name in sides[0]}

    def as_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        rows = self.measures()
        names = ("base", "trained", "difference")
        return {name: dict(zip(names, (m.as_dict() for m in row), strict=True)) for name, row in rows.items()}


def check_axes(axes: Sequence[str], world: World) -> None:
    """Refuse axes that do not exist, and those that the world cannot write."""
    if not axes:
        raise PodiumError(f"Name at least one intervention: {', '.join(AXES)}.")
    for axis in axes:
        if axis not in AXES:
            raise PodiumError(f"There is no intervention {axis!r}. {nearest(axis, AXES)}")
        if f"task.{axis}" not in world.provides:
            what = {PLAN: "plans", KNOWLEDGE: "the knowledge that its tasks need", SUBPROBLEMS: "subproblems"}[axis]
            raise PodiumError(
                f"The world {world.name!r} cannot write {what}: take one that can, such as sums or rules, or define "
                f"{axis}(task) in a world of your own and name `task.{axis}` in what it provides."
            )


def answers(driver: Driver, requests: Sequence[TaskRequest], axes: Sequence[str], samples: int) -> Answers:
    """`samples` answers to each task without help, with each help, and to each of its subproblems."""
    world, helped = driver.world, [axis for axis in axes if axis != SUBPROBLEMS]
    groups = driver.collect([_plan(request, world, helped, SUBPROBLEMS in axes, samples) for request in requests])
    right = [np.array([float(bool(r.columns["correct"])) for r in g]).reshape(-1, samples) for g in groups]
    first = 1 + len(helped)
    return Answers(
        {name: np.stack([task[place] for task in right]) for place, name in enumerate((PLAIN, *helped))},
        [task[first:] for task in right] if SUBPROBLEMS in axes else (),
    )


def _plan(request: TaskRequest, world: World, helped: Sequence[str], divided: bool, samples: int) -> Plan:
    task = request.task
    texts = {PLAN: world.plan, KNOWLEDGE: world.knowledge}
    asked: list[Request] = [Play(request, samples)]
    for place, axis in enumerate(helped, 1):
        context = Scaffold(hint=texts[axis](task), base=world.context)
        asked.append(Play(request, samples, wave=place, first=place * samples, context=context))
    for place, part in enumerate(world.subproblems(task) if divided else (), len(asked)):
        asked.append(Play(replace(request, task=part), samples, wave=place, first=place * samples))
    return rollouts_of((yield asked))


def _columns(side: Answers) -> dict[str, Array]:
    """By name, [task, 2] of which the ratio of the sums is the measure."""
    plain = side.right[PLAIN]
    ones = np.ones(len(plain))
    columns = {PLAIN: np.stack([plain.mean(1), ones], axis=-1)}
    for name, right in side.right.items():
        if name != PLAIN:
            columns[f"with {name}"] = np.stack([right.mean(1), ones], axis=-1)
            columns[f"effect of {name}"] = np.stack([(right - plain).mean(1), ones], axis=-1)
    if side.parts:
        whole = np.stack([parts.all(0) for parts in side.parts]).astype(float)  # [task, sample] all are right
        columns["subproblems"] = np.array([[parts.mean(), 1.0] for parts in side.parts])
        columns["all subproblems"] = np.stack([whole.mean(1), ones], axis=-1)
        columns["task, where all are right"] = np.stack([(whole * plain).sum(1), whole.sum(1)], axis=-1)
    return columns


def _row(base: Array, trained: Array, name: str) -> tuple[Measure, Measure, Measure]:
    bounds = (-1.0, 1.0) if name.startswith("effect") else (0.0, 1.0)
    both = np.concatenate([trained, base], axis=-1)[None]
    return (
        estimate(base[None], _ratio, bounds=bounds),
        estimate(trained[None], _ratio, bounds=bounds),
        estimate(both, lambda sums: _ratio(sums[:, :2]) - _ratio(sums[:, 2:])),
    )


def _ratio(sums: Array) -> Array:
    """[draw] undefined where there is nothing to divide by."""
    return np.divide(sums[:, 0], sums[:, 1], out=np.full(len(sums), np.nan), where=sums[:, 1] != 0)
