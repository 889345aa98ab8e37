"""The state that the training loop works with, and how far a run has come. `podium.training.build` makes one."""

from __future__ import annotations

import gc
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from podium.collect.annotations.registry import AnnotationContext, annotations_of
from podium.collect.driver import Driver
from podium.core.activity import changed_elements, label
from podium.core.batch import Batch
from podium.core.build import Rollout
from podium.core.memory import State
from podium.core.part import Metric, Part, Strategy
from podium.core.ranks import ALONE, Ranks
from podium.core.signal import Signal
from podium.core.value import Clock
from podium.method import Method
from podium.policy import Policy
from podium.protocols.sampling import Sampling
from podium.protocols.world import Task, World, task_of
from podium.sampler.outside import LOCAL
from podium.store.json_lines import read_object
from podium.strategies import Sample
from podium.strategies.requests import TaskRequest
from podium.training.checkpoint import Position, check_memories, load_checkpoint, save_checkpoint
from podium.training.config import Config
from podium.training.memory_states import Memories
from podium.training.preemption import StopRequest
from podium.training.resolve import phase_rate
from podium.training.tasks import Tasks
from podium.training.trainer import Trainer

__all__ = ["SHOWN", "Evaluate", "Record", "Run"]

Evaluate = Callable[["Run"], Mapping[str, Any]]  # measures the policy on held-out tasks
Record = Callable[[int, Batch], None]  # gets an iteration's number and its batch
SHOWN = "shown.json"  # in a checkpoint: the texts that stand above and below every question, if there are any
LEAST_GAP = 1e-5  # that an engine outside may have: rounding alone makes 1e-6 in float32
PENDING = "pending.json"  # in a checkpoint: the metrics of its iteration, if the evaluation was interrupted


@dataclass
class Run:
    """The models, the world, the sampler and the memories of a run, and its counters."""

    config: Config
    world: World
    policy: Policy
    trainer: Trainer
    driver: Driver
    ranks: Ranks = ALONE  # the processes that train together
    memories: Memories = field(init=False)
    tasks: Tasks = field(init=False)
    iteration: int = 0  # iterations done
    drawn: int = 0  # tasks drawn so far in this iteration
    tokens: int = 0  # sampled so far
    progress: State = field(init=False)  # how far a method in phases has come
    dropped: list[Batch] = field(default_factory=list)  # groups of this iteration that are not trained
    acted: Counter[str] = field(default_factory=Counter)  # by part: the elements that it changed in this iteration
    pending: dict[str, Any] | None = None  # the metrics of the last iteration until it is complete: see `complete`
    saved: int | None = None  # the iteration whose checkpoint holds the current state
    stop: StopRequest = field(default_factory=StopRequest)
    first_gap: float | None = None  # between trainer and sampler, in the first iteration since the start
    frozen: bool = False  # whether the garbage collector ignores what existed after the first iteration

    def __post_init__(self) -> None:
        method = self.config.method
        self.memories, self.tasks = Memories(method, self.trainer), Tasks(self.world, self.config)
        self.progress = method.start()
        self._states_before = self.memories.states

    def close(self) -> None:
        """Release the world."""
        if self.frozen:
            gc.unfreeze()
        self.driver.close()
        self.world.close()

    # -- iterations ------------------------------------------------------------------------------------------------

    @property
    def clock(self) -> Clock:
        return Clock(self.iteration, self.memories.scalars(self.config.method), self.progress)

    @property
    def gap_allowed(self) -> float:
        """The largest mean gap between the log-probabilities of sampler and trainer that the sentinel accepts. An
        engine outside begins with the right weights: ten times the gap that it begins with means old ones."""
        usual = self.config.gap_allowed
        if self.config.sampler == LOCAL or self.config.sentinel is not None or self.first_gap is None:
            return usual
        return min(usual, max(10 * self.first_gap, LEAST_GAP))

    @property
    def finished(self) -> bool:
        budget = self.config.token_budget
        return self.iteration >= self.config.iterations or (budget is not None and self.tokens >= budget)

    def begin(self) -> Method:
        """The method of the next iteration with its schedules resolved; the trainer scores at its temperature. Until
        the first update the run may stop at any point."""
        self._states_before = dict(self.memories.states)
        self.stop.allow()
        method = self.config.method.at(self.clock)
        self.drawn, self.dropped, self.acted = 0, [], Counter()
        self.tasks.begin()
        self.memories.begin()
        self.trainer.rate_scale = phase_rate(self.config.method, method)
        self.trainer.temperature = 1.0 if method.rollout is None else float(method.rollout.temperature)
        return method

    def abandon(self) -> None:
        """Undo an iteration that was stopped before its first update: by then it can only have carried groups over. If
        it was stopped later, during its evaluation, that stays pending."""
        if self.pending is None:
            self.memories.states = self._states_before

    def end(self, metrics: Mapping[str, Any], evaluate: Evaluate | None = None) -> dict[str, Any]:
        """Count an iteration and complete it."""
        self.iteration += 1
        self.tokens += int(metrics["tokens"])
        if not self.frozen:
            # Spare the garbage collector what stays: modules, models and tokenizers are hundreds of thousands of
            # objects, which it would traverse every few iterations, for 0.2 s.
            gc.freeze()
            self.frozen = True
        self.trainer.check_ranks()
        self.pending = self.ranks.of_first(dict(metrics))  # times differ between ranks, and memories see all metrics
        self.trainer.end_iteration(self.iteration)
        return self.complete(evaluate)

    def complete(self, evaluate: Evaluate | None = None) -> dict[str, Any]:
        """Complete the pending iteration: evaluate if that is due, and show the metrics to memories and to a method in
        phases. Returns the metrics with those of the evaluation, and the phase that they belong to.

        A run that was stopped during an evaluation resumes here.
        """
        assert self.pending is not None
        metrics = self.pending
        if evaluate is not None and (self.finished or is_due(self.iteration, self.config.eval_every)):
            with self.stop.allowed():
                metrics = {**metrics, **evaluate(self)}
        phase = {"phase": self.progress["phase"]} if self.progress else {}
        self.measured(metrics)
        began, self.progress = self.progress.get("began"), self.config.method.advance(self.clock, metrics)
        if self.progress.get("began") != began:
            self.trainer.begin_phase(fresh=self.config.method.begins_fresh(self.progress))
        self.pending = None
        return {**metrics, **phase}

    def measured(self, metrics: Mapping[str, Any]) -> None:
        """Show metrics to the memories of the current method."""
        self.memories.measured(self.config.method.at(self.clock), metrics)

    @property
    def shown(self) -> tuple[str, str]:
        """The texts above and below held-out questions that the method has learnt so far."""
        method = self.config.method.at(self.clock).main()
        strategy = method.rollout
        if strategy is None or type(strategy).taught is Strategy.taught:
            return "", ""
        return strategy.taught(self.memories.of_tasks(method, [task_of(self.world, 0, "test")]))

    # -- checkpoints -----------------------------------------------------------------------------------------------

    def save(self, directory: Path) -> None:
        """Write a checkpoint."""
        position = Position(self.iteration, self.memories.states, self.progress, self.tokens)
        save_checkpoint(directory, self.trainer, position, self.config.to_yaml())
        if any(self.shown):
            (directory / SHOWN).write_text(json.dumps(self.shown), encoding="utf-8")
        if self.pending is not None:
            (directory / PENDING).write_text(json.dumps(self.pending), encoding="utf-8")

    def restore(self, directory: Path) -> None:
        """Go back to where a checkpoint was written."""
        position = load_checkpoint(directory, self.trainer)
        check_memories(directory, position.memories, self.memories.states, self.config.method.name)
        self.iteration, self.progress, self.tokens = position.iteration, position.progress, position.tokens
        self.memories.states = dict(position.memories)
        file = directory / PENDING
        self.pending = read_object(file) if file.is_file() else None
        self.saved = self.iteration if self.pending is None else None

    # -- what the stages of an iteration call ----------------------------------------------------------------------

    def requests(self, method: Method, count: int) -> list[TaskRequest]:
        """The next `count` tasks of this iteration, with the settings and random streams of their groups."""
        format = None if method.rollout is None else method.rollout.format
        sampling = Sampling(max_tokens=self.config.max_tokens)
        tasks = self._next_tasks(method, count)
        recalled = self.memories.of_tasks(method, tasks)
        requests = []
        for place, task in enumerate(tasks):
            stream = (self.config.seed, self.iteration, self.drawn)
            memory = {name: values[place if name.startswith("group.") else 0] for name, values in recalled.items()}
            settings: dict[str, Any] = {"number": self._group_number, "world": self.world}
            settings |= {"vocabulary": self.policy.vocabulary, "format": format}
            requests.append(TaskRequest(task, self.drawn, sampling, stream, memory, **settings))
            self.drawn += 1
        return requests

    @property
    def _group_number(self) -> int:
        """How many groups the run has asked for so far."""
        return self.iteration * self.config.tasks + self.memories.extra_tasks + self.drawn

    def _next_tasks(self, method: Method, count: int) -> list[Task]:
        if method.select is None:
            return self.tasks.in_turn(self._group_number, count)
        place, recall = (self.iteration, self.drawn), partial(self.memories.of_tasks, method)
        chosen = self.tasks.chosen(method.select, count, place, recall)
        self.acted[label(method.select)] += self.tasks.steered
        return chosen

    def collect(self, method: Method, requests: Sequence[TaskRequest]) -> list[Rollout]:
        """The rollouts of these tasks, with the annotations that the method relies on."""
        strategy = method.rollout or Sample()
        plans = strategy.plans(requests)
        groups = self.driver.collect(plans)
        if len(plans) == 1 < len(requests):  # one plan for all of them
            groups = _by_request(requests, groups[0])
        context = AnnotationContext(self.policy, self.world)
        for annotate in annotations_of(method):
            pairs = zip(requests, groups, strict=True)
            groups = [annotate(context, request.task, group) for request, group in pairs]
        chances = [self.tasks.propensity.get(request.task.key) for request in requests]
        groups = [
            group if p is None else [replace(r, columns={**r.columns, "propensity": p}) for r in group]
            for p, group in zip(chances, groups, strict=True)
        ]
        rollouts = [rollout for group in groups for rollout in group]
        self.acted[label(strategy)] += strategy.acted(rollouts)
        return rollouts

    def apply(self, parts: Sequence[Part], batch: Batch) -> Batch:
        """Run parts one after another, computing before each the signals that it needs, and nothing else."""
        for part in parts:
            wanted = [n for n in part.needs if isinstance(n, Signal) and n.of != "now"]
            batch = self.trainer.provide(batch, wanted)
            for probe in part.probes:
                texts = probe.texts(batch)
                if texts is not None:
                    scored = self.trainer.provide(texts, probe.signals)
                    batch = batch.with_columns(probe.columns(batch, scored))
            columns = part(batch)  # type: ignore[operator]
            if not isinstance(part, Metric):
                self.acted[label(part)] += changed_elements(batch, columns)
            batch = batch.with_columns(columns)
        return batch

    def drop(self, batch: Batch, groups: torch.Tensor) -> tuple[int, int]:
        """Leave these groups out of training; how many they are, and how many tokens they hold."""
        if not bool(groups.any()):
            return 0, 0
        self.dropped.append(batch.take("group", groups))
        return self.dropped[-1].size("group"), self.dropped[-1].size("token")


def _by_request(requests: Sequence[TaskRequest], rollouts: Sequence[Rollout]) -> list[list[Rollout]]:
    """The rollouts of one plan for all tasks. What a strategy has put into a group of its own, such as votes on a text
    that was written for a task, goes with its task."""
    places = {request.group: place for place, request in enumerate(requests)}
    tasks = {request.task.key: place for place, request in enumerate(requests)}
    found: list[list[Rollout]] = [[] for _ in requests]
    for rollout in rollouts:
        found[places[rollout.group] if rollout.group in places else tasks[rollout.task]].append(rollout)
    return found


def is_due(iteration: int, every: int) -> bool:
    """Whether something that happens every so many iterations happens after this one; 0: never."""
    return every > 0 and iteration % every == 0
