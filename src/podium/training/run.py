"""A run being made: the models, the world, the sampler and the memories that the loop works with."""

from __future__ import annotations

import gc
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any

import torch

import podium.training.criteria  # annotations register themselves
import podium.training.passages
import podium.training.plans  # noqa: F401
from podium import policy as policies
from podium import worlds
from podium.core.batch import Batch
from podium.core.build import Rollout
from podium.core.errors import PodiumError
from podium.core.memory import Memory, State
from podium.core.method import Method, Role
from podium.core.part import Part
from podium.core.signal import Signal
from podium.core.value import Clock
from podium.keep.replay import beside
from podium.policy import Policy
from podium.policy import device as devices
from podium.policy.load import DTYPES
from podium.rollout import Sample
from podium.rollout.plan import TaskRequest
from podium.sampler.local import LocalSampler
from podium.sampler.request import Sampling
from podium.sampler.streams import key, uniforms
from podium.training import annotate
from podium.training.config import Config
from podium.training.driver import Driver
from podium.training.room import plan
from podium.training.trainer import Learner, Trainer
from podium.worlds.world import Task, World, task_of

__all__ = ["Run", "check_fit"]

SMALL = 5_000_000  # parameters: below, a step's products are too short to be shared out


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
    progress: State = field(default_factory=dict)  # how far a method in phases has come
    pool: dict[str, tuple[int, Task]] = field(default_factory=dict)  # the tasks that a select part chooses from
    chosen: set[str] = field(default_factory=set)  # those that it has chosen in this iteration
    read: dict[str, float] = field(default_factory=dict)  # what a memory's reader said of prompts in this iteration
    dropped: list[Batch] = field(default_factory=list)  # groups of this iteration that are not trained
    settled: bool = False  # whether the garbage collector leaves alone what there was after the first iteration

    @classmethod
    def make(cls, config: Config) -> Run:
        """Load the models and open the world; refuse a method that cannot work there."""
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
        lora = None if config.lora is None else {"r": config.lora}
        # What is trained keeps the precision of its file. Rounded first, every weight would stand in the middle between
        # two others of the lower precision, and nothing would be seen of small updates for a long time.
        exact, lower = "float32" if lora is None else config.dtype, DTYPES[config.dtype]
        devices.find(config.device, lower)  # refuses now what cannot compute so
        policy = policies.load(config.model, dtype=exact, device=config.device, lora=lora)
        _few_threads(policy)
        # Roles are made before the first update: the reference is the policy as it was.
        models = {role.name: _role(policy, role, method, config) for role in method.roles if role.source != "critic"}
        models |= {role.name: models["critic"].frozen_copy() for role in method.roles if role.source == "critic"}
        trained = {"policy"} | {term.trains for m in method.leaves() for term in m.objective}
        cast = {"policy": policy} | models
        rates = {role.name: config.optimizer.replace(lr=role.lr) for role in method.roles if role.lr is not None}
        learners = {n: Learner(cast[n], rates.get(n, config.optimizer), lower) for n in cast if n in trained}
        frozen = {name: model for name, model in models.items() if name not in trained}
        for model in frozen.values():
            if model is not policy:
                model.narrow(lower)
        longest = config.max_tokens or world.max_tokens
        room = plan([x.policy for x in learners.values()], config.micro_tokens, longest, config.checkpointing)
        policy.notes = (*policy.notes, *room.notes, *notes)
        for learner in learners.values():
            learner.policy.checkpoint_activations(room.checkpointing)
        updates = config.iterations * max(m.updates.epochs * m.updates.mini_batches for m in method.leaves())
        trainer = Trainer(
            learners,
            frozen,
            micro_tokens=room.micro_tokens,
            planned_updates=updates,
            decays={role.name: role.decay for role in method.roles if role.decay is not None},
            followed={role.name: "critic" for role in method.roles if role.source == "critic"},
            contexts={role.name: role.context for role in method.roles if role.context is not None},
        )
        driver = Driver(
            LocalSampler(policy, memory=room.sampler),
            world,
            capture=_captured(method),
            follow_up=policy.follow_up,
            written=policy.written,
            ends=policy.ends,
            score={name: model.score for name, model in cast.items()},
            embed={name: partial(policies.embed, model) for name, model in cast.items()},
            act_limit_s=config.act_limit_s,
            others={name: LocalSampler(cast[name]) for name in _writers(method)},
        )
        _check_prompts(world, policy, config)
        memories = {type(m).__name__: m.initial() for m in method.memories}
        return cls(config, world, policy, trainer, driver, memories, progress=method.start())

    @property
    def clock(self) -> Clock:
        values: dict[str, float] = {}
        for memory in self.config.method.memories:
            values |= memory.scalars(self.memories[type(memory).__name__])
        return Clock(self.iteration, values, self.progress)

    @property
    def finished(self) -> bool:
        budget = self.config.token_budget
        return self.iteration >= self.config.iterations or (budget is not None and self.tokens >= budget)

    def close(self) -> None:
        """End what runs for the world."""
        if self.settled:
            gc.unfreeze()
        self.world.close()

    def settle(self) -> None:
        """Spare the garbage collector what stays: modules, models and tokenizers are hundreds of thousands of objects,
        through which it would look every few iterations, for 0.2 s."""
        if not self.settled:
            gc.freeze()
            self.settled = True

    # -- what the loop's stages call -------------------------------------------------------------------------------

    def begin(self) -> Method:
        """The method of the next iteration with its schedules resolved; the trainer scores at its temperature."""
        method = self.config.method.at(self.clock)
        self.drawn, self.chosen, self.dropped, self.read = 0, set(), [], {}
        self.trainer.temperature = float(getattr(method.rollout, "temperature", 1.0))
        return method

    def measured(self, line: Mapping[str, Any]) -> None:
        """Let the memories of the method whose turn it is see what was measured."""
        for memory in self.config.method.at(self.clock).memories:
            name = type(memory).__name__
            self.memories[name] = memory.measured(self.memories[name], line)

    def proceed(self, line: Mapping[str, Any]) -> dict[str, Any]:
        """Let memories, and a method in phases, see what the iteration was like; the metrics with the phase that they
        belong to."""
        phase = {"phase": self.progress["phase"]} if self.progress else {}
        self.measured(line)
        self.progress = self.config.method.advance(self.clock, line)
        return {**line, **phase}

    def requests(self, method: Method, count: int) -> list[TaskRequest]:
        """The next `count` tasks of this iteration, with the settings and random streams of their groups."""
        limit = self.config.max_tokens or self.world.max_tokens
        made = []
        tasks = self._tasks(method, count)
        recalled = self.recall(method.memories, tasks)
        for place, task in enumerate(tasks):
            stream = (self.config.seed, self.iteration, self.drawn)
            own = {name: place if name.startswith("group.") else 0 for name in recalled}
            known = {name: recalled[name][row] for name, row in own.items()}
            sampling = Sampling(max_tokens=limit)
            named: dict[str, Any] = {"number": self._number, "world": self.world}
            made.append(TaskRequest(task, self.drawn, sampling, stream, known, **named))
            self.drawn += 1
        return made

    @property
    def _number(self) -> int:
        """How many groups the run has asked for so far."""
        return self.iteration * self.config.tasks + self.surplus["drawn"] + self.drawn

    def _tasks(self, method: Method, count: int) -> list[Task]:
        size = self.world.size("train")
        start = self._number
        if method.select is None:
            # Each number once, then again: a fixed shuffle of a finite set, fresh numbers of an endless one.
            return [task_of(self.world, _shuffled(start + i, size, self.config.seed), "train") for i in range(count)]
        if not self.pool:
            made = [task_of(self.world, i, "train") for i in range(size or 64 * self.config.tasks)]
            self.pool = {task.key: (number, task) for number, task in enumerate(made)}
        # What this iteration has sampled already is not chosen again while there is enough else.
        left = [pair for name, pair in self.pool.items() if name not in self.chosen]
        pool = left if len(left) >= count else list(self.pool.values())
        numbers, tasks = zip(*pool, strict=True)
        domains = {name: code for code, name in enumerate(dict.fromkeys(t.domain for t in tasks))}
        streams = [key(self.config.seed, (self.iteration, self.drawn, number)) for number in numbers]
        columns: dict[str, Any] = {
            "group.domain.code": torch.tensor([domains[t.domain] for t in tasks]),
            "group.number": torch.tensor(numbers),
            "group.random": torch.from_numpy(uniforms(streams, [0] * len(streams), 1)[:, 0]),
        }
        columns |= self.recall(method.memories, tasks)
        known = {k: v.to(torch.float64) for k, v in columns.items() if isinstance(v, torch.Tensor)}
        drawn = [tasks[i] for i in method.select.choose(known, count).tolist()]
        self.chosen |= {task.key for task in drawn}
        return drawn

    def collect(self, method: Method, requests: Sequence[TaskRequest]) -> list[Rollout]:
        """The rollouts of these tasks, with the columns that take words to make."""
        strategy = method.rollout or Sample()
        plans = strategy.plans(requests)
        groups = self.driver.collect(plans)
        if len(plans) == 1 < len(requests):  # one plan for all of them
            rollouts = groups[0]
            groups = [[r for r in rollouts if r.group == request.group] for request in requests]
        desk, wanted = annotate.Desk(self.policy, self.world), annotate.asked(method)
        for function in wanted:
            pairs = zip(requests, groups, strict=True)
            groups = [function(desk, request.task, group) for request, group in pairs]
        return [rollout for group in groups for rollout in group]

    def recall(self, memories: Sequence[Memory], tasks: Sequence[Task]) -> Mapping[str, Any]:
        """What the memories know of these tasks."""
        named = ("task", "key"), ("domain", "domain"), ("prompt", "prompt")
        return self._recall(memories, {name: [getattr(t, of) for t in tasks] for name, of in named})

    def _recall(self, memories: Sequence[Memory], keys: Mapping[str, Sequence[Any]]) -> Mapping[str, Any]:
        columns: dict[str, Any] = {}
        for memory in memories:
            state = self.memories[type(memory).__name__]
            columns |= memory.recall(state, keys[memory.keyed_by])
            if memory.reader:
                columns |= memory.told(self._read(memory, state, keys["prompt"]))
        return columns

    def _read(self, memory: Memory, state: State, prompts: Sequence[str]) -> torch.Tensor:
        """[task] what a memory's reader says; it is asked about a prompt once an iteration."""
        reader = self.trainer.roles[memory.reader]
        if not isinstance(reader, policies.Critic):
            raise PodiumError(
                f"The role {memory.reader!r} reads tasks for {memory!r}, but its model has no value head: train one "
                "with podium values RUN --out DIR."
            )
        new = [prompt for prompt in dict.fromkeys(prompts) if prompt not in self.read]
        if new:
            self.read |= zip(new, policies.values_of(reader, memory.asked(state, new)).tolist(), strict=True)
        return torch.tensor([self.read[prompt] for prompt in prompts], dtype=torch.float64)

    def remember(self, method: Method, batch: Batch) -> Batch:
        """The batch with the memories' columns."""
        keys = {"task": list(batch["group.task"])}
        first = batch.partition("rollout", "group").agg.first(torch.arange(len(batch), device=batch.device)).tolist()
        keys |= {name: [batch[f"rollout.{name}"][i] for i in first] for name in ("domain", "prompt")}
        recalled = self._recall(method.memories, keys)
        return batch.with_columns({k: _like(v, batch) for k, v in recalled.items()})

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

    def observe(self, method: Method, batch: Batch) -> Batch:
        """Let the memories see the batch that was trained, each with the scores of the updated policy that it needs."""
        for memory in method.memories:
            name = type(memory).__name__
            again = memory.revisit(self.memories[name], batch)
            if again is not None:
                scored = self.trainer.provide(again, [Signal("logp")])
                batch = batch.with_columns(memory.revisited(batch, scored))
            after = [n for n in memory.needs if isinstance(n, Signal) and n.of == "now"]
            batch = self.trainer.provide(batch, after)
            seen = batch
            for groups in self.dropped if memory.sees_dropped else ():
                seen = beside(seen, groups)
            self.memories[name] = memory.observe(self.memories[name], seen)
        return batch

    def drop(self, batch: Batch, gone: torch.Tensor) -> tuple[int, int]:
        """Leave groups out of the training; how many they are, and how many tokens they hold."""
        if not bool(gone.any()):
            return 0, 0
        self.dropped.append(batch.take("group", gone))
        return self.dropped[-1].size("group"), self.dropped[-1].size("token")

    # -- rollouts of earlier iterations -------------------------------------------------------------------------------

    def replayed(self, method: Method, batch: Batch) -> Batch | None:
        """The batch with what the memories train once more beside it; None: no memory of the method does such a thing.

        All of it has the log-probabilities of its own time.
        """
        buffers = [m for m in method.memories if type(m).replay is not Memory.replay]
        if not buffers:
            return None
        batch = self.dated(batch)
        joined = batch.with_columns({"rollout.weight.replay": torch.ones(len(batch), dtype=batch.dtype)})
        for memory in buffers:
            rows = memory.replay(self.memories[type(memory).__name__], batch)
            joined = joined if rows is None else beside(joined, rows)
        return joined

    # -- groups that wait for the next batch -----------------------------------------------------------------------

    @property
    def surplus(self) -> State:
        """Groups that were kept beyond the batch, and how many tasks were drawn beyond those of the iterations."""
        return self.memories.get("surplus", {"groups": None, "drawn": 0, "method": ""})

    def waiting(self, method: Method) -> list[Batch]:
        """The groups that the method left in the iterations before, with what the memories recall of them now."""
        groups: Batch | None = self.surplus["groups"]
        if groups is None or self.surplus["method"] != method.name:
            return []
        return [self.remember(method, groups)]

    def dated(self, groups: Batch) -> Batch:
        """Groups that may have to wait: with the weights' version, and log-probabilities that stay as they are."""
        groups = self.trainer.provide(groups, [Signal("logp", of="old")])
        version = torch.full((len(groups),), self.iteration, device=groups.device)
        return groups if "rollout.version" in groups else groups.with_columns({"rollout.version": version})

    def wait(self, method: Method, groups: Batch | None) -> None:
        """Keep groups for the next iteration, with the log-probabilities and rewards that they have."""
        drawn = self.surplus["drawn"] + self.drawn - self.config.tasks
        if groups is not None:
            names = [(*name, self.iteration) for name in groups["group.uid"]]  # other iterations count groups anew
            groups = groups.without([c for c in groups.columns if c.startswith("batch.")])
            groups = groups.with_columns({"group.uid": names})
        self.memories["surplus"] = {"groups": groups, "drawn": drawn, "method": method.name}


def check_fit(method: Method, world: World, name: str) -> None:
    """Refuse a method that cannot work on a world."""
    findings = [f.message for f in method.check(world.provides) if f.kind == "error"]
    if findings:
        raise PodiumError(f"{method.name} cannot run on {name}: {' '.join(findings)}")


def _few_threads(policy: Policy) -> None:
    """A small model on a CPU runs in one thread, unless the environment says otherwise: several would mostly wait."""
    small = sum(p.numel() for p in policy.parameters()) < SMALL
    if small and policy.device.type == "cpu" and "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1)


def _role(policy: Policy, role: Role, method: Method, config: Config) -> Policy:
    """The model of a role: a copy of the policy or one of its own, with a value head where a term asks for values."""
    if role.source in policies.NETWORKS:
        return policies.NETWORKS[role.source](policy)
    terms = [term for m in method.leaves() for term in m.objective if term.trains == role.name]
    own = role.source not in ("initial", "policy")
    if own and not terms and policies.has_head(role.source):
        return policies.read_critic(role.source, dtype=config.dtype, device=config.device).frozen_copy()
    exact = "float32" if terms else config.dtype
    model = policies.load(role.source, dtype=exact, device=config.device) if own else policy
    if any(isinstance(need, Signal) and need.name == "value" for term in terms for need in term.needs):
        return policies.critic(model, role.heads)
    if own or (role.source == "policy" and not terms and role.decay is None):
        return model  # the policy itself, as it is now: perhaps under other contexts
    return policy.copy() if terms else policy.frozen_copy()


def _writers(method: Method) -> list[str]:
    """The roles beside the policy that write rollouts."""
    found = [getattr(leaf.rollout, "writer", "policy") for leaf in method.leaves()]
    return sorted({role for role in found if role != "policy"})


def _check_prompts(world: World, policy: Policy, config: Config) -> None:
    """Refuse a world that cannot make its first tasks, or a finite set of them with a prompt that leaves no room to
    answer, before a run gets there."""
    needed = {"train": config.iterations * config.tasks, "test": config.eval_tasks}
    for split, count in needed.items():
        size = world.size(split)
        for number in range(min(count, 1 if world.costly or not size else size)):
            place = number if split == "test" or not size else _shuffled(number, size, config.seed)
            task = task_of(world, place, split)
            length = len(policy.encode([{"role": "user", "content": task.prompt}]))
            if length >= policy.context_length:
                raise PodiumError(
                    f"The prompt of {task.key} has {length} tokens, which leaves no room to answer in the context of "
                    f"{config.model}, {policy.context_length} tokens. Leave it out, or use another model."
                )


def _captured(method: Method) -> tuple[str, ...]:
    """What the sampler must keep per token beside log-probabilities: entropies for the metrics, and what parts need."""
    needs = [n for p in method.parts() for n in p.needs if isinstance(n, Signal) and n.of == "sampler"]
    wanted = {n.column.removeprefix(f"{n.level}.sampler.") for n in needs}
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
    return int(_permutation(size, seed * 1_000_003 + epoch)[place])


@lru_cache(2)  # a batch may reach from one pass into the next
def _permutation(size: int, seed: int) -> torch.Tensor:
    return torch.randperm(size, generator=torch.Generator().manual_seed(seed))
