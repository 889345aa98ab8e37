"""A run: the models, the world, the sampler and the memories that the loop works with, and how far it has come."""

from __future__ import annotations

import gc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch

from podium import worlds
from podium.collect.annotations import registry as annotate
from podium.collect.driver import Driver
from podium.core.batch import Batch
from podium.core.build import Rollout
from podium.core.memory import State
from podium.core.part import Part
from podium.core.signal import Signal
from podium.core.value import Clock
from podium.method import Method
from podium.policy import Policy, embed
from podium.protocols.sampling import Sampling
from podium.protocols.world import Task, World
from podium.sampler.local import LocalSampler
from podium.strategies import Sample
from podium.strategies.requests import TaskRequest
from podium.training import checkpoint
from podium.training.config import Config
from podium.training.memory_plan import plan
from podium.training.memory_states import Memories
from podium.training.models import cast, learners, others
from podium.training.preflight import check_fit, check_prompts
from podium.training.tasks import Tasks
from podium.training.trainer import Trainer

__all__ = ["Run"]


@dataclass
class Run:
    """What the loop needs, made from a configuration."""

    config: Config
    world: World
    policy: Policy
    trainer: Trainer
    driver: Driver
    memories: Memories = field(init=False)
    tasks: Tasks = field(init=False)
    iteration: int = 0  # iterations done
    drawn: int = 0  # tasks drawn so far in this iteration
    tokens: int = 0  # sampled so far
    progress: State = field(init=False)  # how far a method in phases has come
    dropped: list[Batch] = field(default_factory=list)  # groups of this iteration that are not trained
    settled: bool = False  # whether the garbage collector leaves alone what there was after the first iteration

    def __post_init__(self) -> None:
        method = self.config.method
        self.memories, self.tasks = Memories(method, self.trainer), Tasks(self.world, self.config)
        self.progress = method.start()

    # -- what it is made of ----------------------------------------------------------------------------------------

    @classmethod
    def make(cls, config: Config) -> Run:
        """Load the models and open the world; refuse a method that cannot work there."""
        config = config.replace(dtype=config.precision)
        gc.unfreeze()  # what a run that nobody closed has left may go
        world = worlds.get(config.world, **(config.world_settings or {}))
        try:
            return cls._make(config, world)
        except BaseException:
            world.close()
            raise

    @classmethod
    def _make(cls, config: Config, world: World) -> Run:
        method = config.method
        check_fit(method, world, str(config.world))
        strategies = [m.rollout for m in method.leaves() if m.rollout is not None]
        notes = dict.fromkeys(note for strategy in strategies for note in strategy.prepare(world) or ())
        models = cast(config)
        policy = models["policy"]
        prompt = check_prompts(world, policy, config)
        learning = learners(models, config)
        frozen = others(models, learning, config)
        longest = min(prompt + (config.max_tokens or world.max_tokens), policy.context_length)
        room = plan([x.policy for x in learning.values()], config.micro_tokens, longest, config.checkpointing)
        policy.notes = (*policy.notes, *room.notes, *notes)
        for learner in learning.values():
            learner.policy.checkpoint_activations(room.checkpointing)
        updates = config.iterations * max(m.updates.epochs * m.updates.mini_batches for m in method.leaves())
        trainer = Trainer(
            learning,
            frozen,
            micro_tokens=room.micro_tokens,
            planned_updates=updates,
            decays={role.name: role.decay for role in method.roles if role.decay is not None},
            followed={role.name: "critic" for role in method.roles if role.source == "critic"},
            contexts={role.name: role.context for role in method.roles if role.context is not None},
        )
        writers = _writers(method)
        each = None if room.sampler is None else room.sampler // (1 + len(writers))
        driver = Driver(
            LocalSampler(policy, memory=each),
            world,
            capture=_captured(method),
            follow_up=policy.follow_up,
            written=policy.written,
            ends=policy.ends,
            score={name: model.score for name, model in models.items()},
            embed={name: partial(embed, model) for name, model in models.items()},
            act_limit_s=config.act_limit_s,
            others={name: LocalSampler(models[name], memory=each) for name in writers},
        )
        return cls(config, world, policy, trainer, driver)

    def close(self) -> None:
        """End what runs for the world."""
        if self.settled:
            gc.unfreeze()
        self.world.close()

    # -- how it goes on --------------------------------------------------------------------------------------------

    @property
    def clock(self) -> Clock:
        return Clock(self.iteration, self.memories.scalars(self.config.method), self.progress)

    @property
    def finished(self) -> bool:
        budget = self.config.token_budget
        return self.iteration >= self.config.iterations or (budget is not None and self.tokens >= budget)

    def begin(self) -> Method:
        """The method of the next iteration with its schedules resolved; the trainer scores at its temperature."""
        method = self.config.method.at(self.clock)
        self.drawn, self.dropped = 0, []
        self.tasks.begin()
        self.memories.begin()
        self.trainer.temperature = 1.0 if method.rollout is None else float(method.rollout.temperature)
        return method

    def end(self, tokens: int) -> None:
        """Count an iteration, which has sampled so many tokens."""
        self.iteration += 1
        self.tokens += tokens
        if not self.settled:
            # Spare the garbage collector what stays: modules, models and tokenizers are hundreds of thousands of
            # objects, through which it would look every few iterations, for 0.2 s.
            gc.freeze()
            self.settled = True

    def measured(self, line: Mapping[str, Any]) -> None:
        """Let the memories of the method whose turn it is see what was measured."""
        self.memories.measured(self.config.method.at(self.clock), line)

    def proceed(self, line: Mapping[str, Any]) -> dict[str, Any]:
        """Let memories, and a method in phases, see what the iteration was like; the metrics with the phase that they
        belong to."""
        phase = {"phase": self.progress["phase"]} if self.progress else {}
        self.measured(line)
        self.progress = self.config.method.advance(self.clock, line)
        return {**line, **phase}

    # -- how it is saved and resumed -------------------------------------------------------------------------------

    def save(self, directory: Path) -> None:
        """Write a checkpoint."""
        checkpoint.save_checkpoint(directory, self.iteration, self.trainer, self.memories.states, self.progress)

    def restore(self, directory: Path) -> None:
        """Go back to where a checkpoint was written."""
        self.iteration, states, self.progress = checkpoint.load_checkpoint(directory, self.trainer)
        checkpoint.check_memories(directory, states, self.memories.states, self.config.method.name)
        self.memories.states = states

    # -- what the loop's stages call -------------------------------------------------------------------------------

    def requests(self, method: Method, count: int) -> list[TaskRequest]:
        """The next `count` tasks of this iteration, with the settings and random streams of their groups."""
        sampling = Sampling(max_tokens=self.config.max_tokens or self.world.max_tokens)
        tasks = self._tasks(method, count)
        recalled = self.memories.of_tasks(method, tasks)
        made = []
        for place, task in enumerate(tasks):
            stream = (self.config.seed, self.iteration, self.drawn)
            known = {name: values[place if name.startswith("group.") else 0] for name, values in recalled.items()}
            named: dict[str, Any] = {"number": self._number, "world": self.world}
            made.append(TaskRequest(task, self.drawn, sampling, stream, known, **named))
            self.drawn += 1
        return made

    @property
    def _number(self) -> int:
        """How many groups the run has asked for so far."""
        return self.iteration * self.config.tasks + self.memories.beyond + self.drawn

    def _tasks(self, method: Method, count: int) -> list[Task]:
        if method.select is None:
            return self.tasks.in_turn(self._number, count)
        place, recall = (self.iteration, self.drawn), partial(self.memories.of_tasks, method)
        return self.tasks.chosen(method.select, count, place, recall)

    def collect(self, method: Method, requests: Sequence[TaskRequest]) -> list[Rollout]:
        """The rollouts of these tasks, with the columns that take words to make."""
        strategy = method.rollout or Sample()
        plans = strategy.plans(requests)
        groups = self.driver.collect(plans)
        if len(plans) == 1 < len(requests):  # one plan for all of them
            rollouts = groups[0]
            groups = [[r for r in rollouts if r.group == request.group] for request in requests]
        desk = annotate.AnnotationContext(self.policy, self.world)
        for function in annotate.annotations_of(method):
            pairs = zip(requests, groups, strict=True)
            groups = [function(desk, request.task, group) for request, group in pairs]
        return [rollout for group in groups for rollout in group]

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
            batch = batch.with_columns(part(batch))  # type: ignore[operator]
        return batch

    def drop(self, batch: Batch, gone: torch.Tensor) -> tuple[int, int]:
        """Leave groups out of the training; how many they are, and how many tokens they hold."""
        if not bool(gone.any()):
            return 0, 0
        self.dropped.append(batch.take("group", gone))
        return self.dropped[-1].size("group"), self.dropped[-1].size("token")


def _writers(method: Method) -> list[str]:
    """The roles beside the policy that write rollouts."""
    found = ["policy" if leaf.rollout is None else leaf.rollout.writer for leaf in method.leaves()]
    return sorted({role for role in found if role != "policy"})


def _captured(method: Method) -> tuple[str, ...]:
    """What the sampler must keep per token beside log-probabilities: entropies for the metrics, and what parts need."""
    needs = [n for p in method.parts() for n in p.needs if isinstance(n, Signal) and n.of == "sampler"]
    wanted = {n.column.removeprefix(f"{n.level}.sampler.") for n in needs}
    return tuple(sorted({"entropy"} | wanted - {"logp"}))
