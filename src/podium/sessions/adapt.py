"""Adapting at test time: for one held-out task at a time, a few steps of a method, an answer, and the weights back."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np

from podium.core.build import Rollout
from podium.core.errors import PodiumError
from podium.core.part import Select
from podium.evaluation.passk import share_interval
from podium.evaluation.resample import Measure, estimate
from podium.method import Method
from podium.protocols.sampling import Sampling
from podium.protocols.world import Task, task_of
from podium.sessions.train import configure
from podium.strategies import LikeliestOptions
from podium.strategies.requests import Plan, Play, TaskRequest
from podium.training.build import build_run
from podium.training.config import Config
from podium.training.loop import iterate
from podium.training.run import Run
from podium.training.snapshot import RunSnapshot
from podium.training.tasks import Tasks

__all__ = ["Adapted", "AdaptedTask", "adapt"]

STREAM = 1 << 41  # random numbers of the answers, which neither training nor evaluation uses
LABELS = ("rollout.correct", "rollout.reference_answer", "task.solution", "task.criteria", "task.steps")


@dataclass(frozen=True)
class AdaptedTask:
    """The answers to a task before and after the steps."""

    key: str
    before: str
    after: str
    right_before: bool
    right_after: bool
    restored: bool  # whether the weights after it were those before it, bit for bit


@dataclass(frozen=True)
class Adapted:
    """What adapting has done to the answers to some tasks."""

    tasks: tuple[AdaptedTask, ...]

    @property
    def before(self) -> Measure:
        return self._share([task.right_before for task in self.tasks])

    @property
    def after(self) -> Measure:
        return self._share([task.right_after for task in self.tasks])

    @property
    def gain(self) -> Measure:
        """After minus before, paired by task."""
        pairs = [[float(t.right_after) - float(t.right_before), 1.0] for t in self.tasks]
        return estimate(np.array([pairs]), bounds=(-1.0, 1.0))

    @property
    def restored(self) -> bool:
        """Whether the weights were back after every task."""
        return all(task.restored for task in self.tasks)

    @staticmethod
    def _share(right: list[bool]) -> Measure:
        values = [float(x) for x in right]
        return Measure(float(np.mean(values)), *share_interval(values))


def adapt(
    method: str | Method | Config = "rlcf",
    *,
    tasks: int = 32,
    steps: int = 3,
    first: int = 0,
    progress: Callable[[AdaptedTask], None] | None = None,
    **settings: Any,
) -> Adapted:
    """Adapt a model to one held-out task at a time by `steps` iterations of a method that reads no labels.

    `first` is the number of the first task. After each task the weights, the optimiser's state and the memories are
    those of before. Answers are the likeliest ones: of the options where the method scores options, otherwise the
    model's greedy answer.
    """
    config = method if isinstance(method, Config) else configure(method, **settings)
    _check_unlabelled(config.method)
    if steps < 1 or tasks < 1:
        raise PodiumError(f"tasks = {tasks}, steps = {steps}: at least one task must be adapted to, by one step.")
    with closing(build_run(config.replace(iterations=steps, tasks=1, pool=1, eval_every=0))) as run:
        size = run.world.size("test")
        if size is not None and first >= size:
            raise PodiumError(f"The world has {size} held-out tasks: none is left from number {first} on.")
        start, found = RunSnapshot.of(run), []
        for number in range(first, first + tasks if size is None else min(first + tasks, size)):
            found.append(_adapted(run, task_of(run.world, number, "test"), number, steps, start))
            if progress is not None:
                progress(found[-1])
        return Adapted(tuple(found))


def _adapted(run: Run, task: Task, number: int, steps: int, start: RunSnapshot) -> AdaptedTask:
    before = _answer(run, task, number)
    run.tasks = _OneTask(run, task)
    try:
        for _ in range(steps):
            iterate(run)
        after = _answer(run, task, number)
    finally:
        start.restore(run)
    return AdaptedTask(
        task.key,
        str(before.columns["answer"]),
        str(after.columns["answer"]),
        bool(before.columns["correct"]),
        bool(after.columns["correct"]),
        start.holds(run),
    )


class _OneTask(Tasks):
    """The tasks of a run that meets a single one."""

    def __init__(self, run: Run, task: Task) -> None:
        super().__init__(run.world, run.config)
        self.task = task

    def in_turn(self, start: int, count: int) -> list[Task]:
        return [self.task] * count

    def chosen(self, select: Select, count: int, *_: Any) -> list[Task]:
        return self.in_turn(0, count)


def _answer(run: Run, task: Task, number: int) -> Rollout:
    """The model's answer to a task as it is now, without chance."""
    method = run.config.method.at(run.clock)
    format = None if method.rollout is None else method.rollout.format
    limits = Sampling(max_tokens=run.config.max_tokens, temperature=0.0)
    request = TaskRequest(task, number, limits, (run.config.seed, STREAM, number), world=run.world, format=format)
    strategy = method.rollout
    plan = strategy.answer(request) if isinstance(strategy, LikeliestOptions) else _greedy(request)
    (answers,) = run.driver.collect([plan])
    return answers[0]


def _greedy(request: TaskRequest) -> Plan:
    (rollouts,) = yield [Play(request)]
    return rollouts  # type: ignore[return-value]


def _check_unlabelled(method: Method) -> None:
    """Refuse a method that learns from the right answer to the very task that it is tested on."""
    for leaf in method.leaves():
        written = {name for part in leaf.reward for name in part.provides}
        replaces = any("rollout.reward" in part.provides and "rollout.reward" not in part.needs for part in leaf.reward)
        stages = (leaf.rollout, *leaf.annotate, *leaf.reward, *leaf.keep, leaf.advantage, *leaf.shape, *leaf.objective)
        for part in stages:
            for need in () if part is None else part.needs:
                read = need in LABELS and need not in written
                if read or (need == "rollout.reward" and not replaces):
                    raise PodiumError(
                        f"{leaf.name or 'The method'} learns from {need} in {type(part).__name__}, that is, from the "
                        "right answer to the task that it would be tested on. Adapt with a method that needs none: "
                        "rlcf, ttrl, ttrv."
                    )
