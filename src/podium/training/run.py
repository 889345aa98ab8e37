"""A run being made: the models, the world, the sampler and the memories that the loop works with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from podium import policy as policies
from podium import worlds
from podium.core.batch import Batch
from podium.core.errors import PodiumError
from podium.core.memory import Memory, State
from podium.core.method import Method
from podium.core.part import Part
from podium.core.signal import Signal
from podium.core.value import Clock
from podium.policy import Policy
from podium.rollout import Sample
from podium.rollout.plan import TaskRequest
from podium.sampler.local import LocalSampler
from podium.sampler.request import Sampling
from podium.training.config import Config
from podium.training.driver import Driver
from podium.training.trainer import Learner, Trainer
from podium.worlds.world import Task, World

__all__ = ["Run"]


@dataclass
class Run:
    """What the loop needs, made from a configuration."""

    config: Config
    world: World
    policy: Policy
    trainer: Trainer
    driver: Driver
    memories: dict[str, State]
    iteration: int = 0  # iterations done
    drawn: int = 0  # tasks drawn so far in this iteration
    tokens: int = 0  # sampled so far

    @classmethod
    def make(cls, config: Config) -> Run:
        """Load the models and open the world; refuse a method that cannot work there."""
        world = worlds.get(config.world, **(config.world_settings or {}))
        method = config.method
        findings = [f for f in method.check(world.provides) if f.kind == "error"]
        if findings:
            raise PodiumError(f"{method.name} cannot run on {config.world}: " + " ".join(f.message for f in findings))
        lora = None if config.lora is None else {"r": config.lora}
        policy = policies.load(config.model, dtype=config.dtype, device=config.device, lora=lora)
        # Roles are made before the first update: the reference is the policy as it was.
        critic = {r.name: policies.critic(policy) for r in method.roles if r.name == "critic"}
        frozen = {r.name: _role(policy, r.source, config) for r in method.roles if r.name != "critic"}
        learners = {name: Learner(p, config.optimizer) for name, p in {"policy": policy, **critic}.items()}
        strategy = method.rollout or Sample()
        updates = config.iterations * method.updates.epochs * method.updates.mini_batches
        trainer = Trainer(learners, frozen, float(getattr(strategy, "temperature", 1.0)), config.micro_tokens, updates)
        driver = Driver(
            LocalSampler(policy),
            world,
            capture=_captured(method),
            follow_up=policy.follow_up,
            act_limit_s=config.act_limit_s,
        )
        memories = {type(m).__name__: m.initial() for m in method.memories}
        return cls(config, world, policy, trainer, driver, memories)

    @property
    def clock(self) -> Clock:
        values: dict[str, float] = {}
        for memory in self.config.method.memories:
            values |= memory.scalars(self.memories[type(memory).__name__])
        return Clock(self.iteration, values)

    @property
    def finished(self) -> bool:
        budget = self.config.token_budget
        return self.iteration >= self.config.iterations or (budget is not None and self.tokens >= budget)

    # -- what the loop's stages call -------------------------------------------------------------------------------

    def requests(self, method: Method, count: int) -> list[TaskRequest]:
        """The next `count` tasks of this iteration, with the settings and random streams of their groups."""
        limit = self.config.max_tokens or self.world.max_tokens
        made = []
        for task in self._tasks(method, count):
            stream = (self.config.seed, self.iteration, self.drawn)
            made.append(TaskRequest(task, self.drawn, Sampling(max_tokens=limit), stream))
            self.drawn += 1
        return made

    def _tasks(self, method: Method, count: int) -> list[Task]:
        size = self.world.size("train")
        start = self.iteration * self.config.tasks + self.drawn
        if method.select is None:
            # Each number once, then again: a fixed shuffle of a finite set, fresh numbers of an endless one.
            return [self.world.task(_shuffled(start + i, size, self.config.seed), "train") for i in range(count)]
        pool = [self.world.task(i, "train") for i in range(size or 64 * self.config.tasks)]
        columns = self.recall(method.memories, [t.key for t in pool])
        weight = method.select({k: v.to(torch.float64) for k, v in columns.items() if isinstance(v, torch.Tensor)})
        generator = torch.Generator().manual_seed(hash((self.config.seed, start)) % 2**63)
        chosen = torch.multinomial(weight, count, replacement=count > len(pool), generator=generator)
        return [pool[i] for i in chosen.tolist()]

    def recall(self, memories: Sequence[Memory], tasks: Sequence[Any]) -> Mapping[str, Any]:
        """What the memories know of these tasks."""
        columns: dict[str, Any] = {}
        for memory in memories:
            columns |= memory.recall(self.memories[type(memory).__name__], tasks)
        return columns

    def remember(self, method: Method, batch: Batch) -> Batch:
        """The batch with the memories' columns."""
        recalled = self.recall(method.memories, list(batch["group.task"]))
        return batch.with_columns({k: _like(v, batch) for k, v in recalled.items()})

    def apply(self, parts: Sequence[Part], batch: Batch) -> Batch:
        """Run parts one after another, computing before each the signals that it needs, and nothing else."""
        for part in parts:
            wanted = [n for n in part.needs if isinstance(n, Signal) and n.of != "now"]
            batch = self.trainer.provide(batch, wanted)
            batch = batch.with_columns(part(batch))  # type: ignore[operator]
        return batch

    def observe(self, method: Method, batch: Batch) -> None:
        """Let the memories see the batch that was trained."""
        for memory in method.memories:
            name = type(memory).__name__
            self.memories[name] = memory.observe(self.memories[name], batch)


def _role(policy: Policy, source: str, config: Config) -> Policy:
    if source in ("initial", "policy"):
        return policy.frozen_copy()
    return policies.load(source, dtype=config.dtype, device=config.device)


def _captured(method: Method) -> tuple[str, ...]:
    """What the sampler must keep per token beside log-probabilities: entropies for the metrics, and what parts need."""
    wanted = {n.name for p in method.parts() for n in p.needs if isinstance(n, Signal) and n.of == "sampler"}
    return tuple(sorted({"entropy"} | wanted - {"logp"}))


def _like(value: Any, batch: Batch) -> Any:
    if isinstance(value, torch.Tensor):
        return value.to(device=batch.device, dtype=batch.dtype if value.is_floating_point() else None)
    return value


def _shuffled(number: int, size: int | None, seed: int) -> int:
    """The `number`-th task: itself in an endless world; in a finite one a fresh permutation for each pass."""
    if size is None:
        return number
    epoch, place = divmod(number, size)
    generator = torch.Generator().manual_seed(seed * 1_000_003 + epoch)
    return int(torch.randperm(size, generator=generator)[place])
