"""Which tasks a run samples next: one after another in a fixed shuffle, or those that a select part chooses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any

import torch

from podium.core.part import Select
from podium.core.streams import key, uniforms
from podium.protocols.world import Task, World, task_of
from podium.training.config import Config

__all__ = ["Tasks", "shuffled"]

ENDLESS = 64  # a select part chooses from this many times the tasks of an iteration, where a world is endless


class Tasks:
    """The training tasks of a run."""

    def __init__(self, world: World, config: Config) -> None:
        self.world, self.config = world, config
        self._chosen: set[str] = set()  # in this iteration
        self.propensity: dict[str, float] = {}  # of the tasks chosen in this iteration, by their keys
        self.steered = 0  # of the last tasks that a select part chose, those that equal weights would not have drawn

    def begin(self) -> None:
        """Start an iteration: all tasks may be chosen again."""
        self._chosen, self.propensity = set(), {}

    def in_turn(self, start: int, count: int) -> list[Task]:
        """The next tasks: of a finite set one shuffle after another, of an endless world fresh numbers, unless the run
        has a pool."""
        size, seed = self.world.size("train") or self.config.pool, self.config.seed
        return [task_of(self.world, shuffled(start + i, size, seed), "train") for i in range(count)]

    def chosen(
        self,
        select: Select,
        count: int,
        place: tuple[int, int],
        recall: Callable[[Sequence[Task]], Mapping[str, Any]],
    ) -> list[Task]:
        """The tasks that a select part chooses at this place of the run, by what the memories recall of them."""
        # A task that this iteration has sampled already is not chosen again while there are enough others.
        left = [pair for name, pair in self._pool.items() if name not in self._chosen]
        pool = left if len(left) >= count else list(self._pool.values())
        numbers, tasks = zip(*pool, strict=True)
        domains = {name: code for code, name in enumerate(dict.fromkeys(t.domain for t in tasks))}
        streams = [key(self.config.seed, (*place, number)) for number in numbers]
        columns: dict[str, Any] = {
            "group.domain.code": torch.tensor([domains[t.domain] for t in tasks]),
            "group.number": torch.tensor(numbers),
            "group.random": torch.from_numpy(uniforms(streams, [0] * len(streams), 1)[:, 0]),
        }
        columns |= recall(tasks)
        numeric = {k: v.to(torch.float64) for k, v in columns.items() if isinstance(v, torch.Tensor)}
        readable: dict[str, Any] = {**numeric, "group.domain": tuple(task.domain for task in tasks)}
        order = select.choose(readable, count).tolist()
        by_chance = torch.argsort(numeric["group.random"], descending=True)[:count].tolist()
        self.steered = len(set(order) - set(by_chance))
        drawn = [tasks[i] for i in order]
        chance = select.propensities(readable)
        if chance is not None:
            self.propensity |= {task.key: float(chance[i]) for task, i in zip(drawn, order, strict=True)}
        self._chosen |= {task.key for task in drawn}
        return drawn

    @cached_property
    def _pool(self) -> dict[str, tuple[int, Task]]:
        """The numbers and tasks that a select part chooses from, by the tasks' keys."""
        size = self.world.size("train") or self.config.pool or ENDLESS * self.config.tasks
        tasks = [task_of(self.world, number, "train") for number in range(size)]
        return {task.key: (number, task) for number, task in enumerate(tasks)}


def shuffled(number: int, size: int | None, seed: int) -> int:
    """The index of the `number`-th task: `number` in an endless world; in a finite one each pass is a permutation."""
    if size is None:
        return number
    epoch, place = divmod(number, size)
    return int(_permutation(size, seed * 1_000_003 + epoch)[place])


@lru_cache(2)  # a batch may extend from one pass into the next
def _permutation(size: int, seed: int) -> torch.Tensor:
    return torch.randperm(size, generator=torch.Generator().manual_seed(seed))
