"""What outlives an iteration: the states of a method's memories, and the groups that wait for the next batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from podium.core.batch import Batch
from podium.core.errors import PodiumError
from podium.core.memory import Memory, State
from podium.core.signal import Signal
from podium.memories.replay import join_batches
from podium.method import Method
from podium.policy import Critic, values_of
from podium.protocols.world import Task
from podium.training.trainer import Trainer

__all__ = ["Memories"]


class Memories:
    """The states of memories by name, with the models that some of them ask. A method in phases uses one by one."""

    def __init__(self, method: Method, trainer: Trainer) -> None:
        self.trainer = trainer
        self.states: dict[str, State] = {type(m).__name__: m.initial() for m in method.memories}
        self._read: dict[str, float] = {}  # what readers said of prompts in this iteration

    def begin(self) -> None:
        """Start an iteration: readers are asked anew."""
        self._read = {}

    # -- what they recall ------------------------------------------------------------------------------------------

    def scalars(self, method: Method) -> dict[str, float]:
        """Numbers that schedules can `Follow`."""
        return {k: x for m in method.memories for k, x in m.scalars(self.states[type(m).__name__]).items()}

    def of_tasks(self, method: Method, tasks: Sequence[Task]) -> Mapping[str, Any]:
        """What they know of these tasks."""
        named = ("task", "key"), ("domain", "domain"), ("prompt", "prompt")
        return self._recall(method, {name: [getattr(t, of) for t in tasks] for name, of in named})

    def of_batch(self, method: Method, batch: Batch) -> Batch:
        """The batch with their columns."""
        keys = {"task": list(batch["group.task"])}
        first = batch.partition("rollout", "group").agg.first(torch.arange(len(batch), device=batch.device)).tolist()
        keys |= {name: [batch[f"rollout.{name}"][i] for i in first] for name in ("domain", "prompt")}
        return batch.with_columns({k: _like(v, batch) for k, v in self._recall(method, keys).items()})

    def _recall(self, method: Method, keys: Mapping[str, Sequence[Any]]) -> Mapping[str, Any]:
        columns: dict[str, Any] = {}
        for memory in method.memories:
            state = self.states[type(memory).__name__]
            columns |= memory.recall(state, keys[memory.keyed_by])
            if memory.reader:
                columns |= memory.told(self._told(memory, state, keys["prompt"]))
        return columns

    def _told(self, memory: Memory, state: State, prompts: Sequence[str]) -> torch.Tensor:
        """[task] what a memory's reader says; it is asked about a prompt once an iteration."""
        reader = self.trainer.roles[memory.reader]
        if not isinstance(reader, Critic):
            raise PodiumError(
                f"The role {memory.reader!r} reads tasks for {memory!r}, but its model has no value head: train one "
                "with podium values RUN --out DIR."
            )
        new = [prompt for prompt in dict.fromkeys(prompts) if prompt not in self._read]
        if new:
            self._read |= zip(new, values_of(reader, memory.asked(state, new)).tolist(), strict=True)
        return torch.tensor([self._read[prompt] for prompt in prompts], dtype=torch.float64)

    # -- what they see ---------------------------------------------------------------------------------------------

    def observe(self, method: Method, batch: Batch, dropped: Sequence[Batch]) -> Batch:
        """Let them see the batch that was trained, each with the scores of the updated policy that it needs, and some
        the groups that were not."""
        for memory in method.memories:
            name = type(memory).__name__
            again = memory.revisit(self.states[name], batch)
            if again is not None:
                scored = self.trainer.provide(again, [Signal("logp")])
                batch = batch.with_columns(memory.revisited(batch, scored))
            after = [n for n in memory.needs if isinstance(n, Signal) and n.of == "now"]
            batch = self.trainer.provide(batch, after)
            seen = batch
            for groups in dropped if memory.sees_dropped else ():
                seen = join_batches(seen, groups)
            self.states[name] = memory.observe(self.states[name], seen)
        return batch

    def measured(self, method: Method, line: Mapping[str, Any]) -> None:
        """Let them see what was measured."""
        for memory in method.memories:
            name = type(memory).__name__
            self.states[name] = memory.measured(self.states[name], line)

    # -- rollouts of earlier iterations ----------------------------------------------------------------------------

    def dated(self, groups: Batch, iteration: int) -> Batch:
        """Groups that may have to wait: with the weights' version, and log-probabilities that stay as they are."""
        groups = self.trainer.provide(groups, [Signal("logp", of="old")])
        version = torch.full((len(groups),), iteration, device=groups.device)
        return groups if "rollout.version" in groups else groups.with_columns({"rollout.version": version})

    def replayed(self, method: Method, batch: Batch, iteration: int) -> Batch | None:
        """The batch with what memories train once more beside it; None: no memory of the method does such a thing.

        All of it has the log-probabilities of its own time.
        """
        buffers = [m for m in method.memories if type(m).replay is not Memory.replay]
        if not buffers:
            return None
        batch = self.dated(batch, iteration)
        joined = batch.with_columns({"rollout.weight.replay": torch.ones(len(batch), dtype=batch.dtype)})
        for memory in buffers:
            rows = memory.replay(self.states[type(memory).__name__], batch)
            joined = joined if rows is None else join_batches(joined, rows)
        return joined

    @property
    def _surplus(self) -> State:
        return self.states.get("surplus", {"groups": None, "drawn": 0, "method": ""})

    @property
    def beyond(self) -> int:
        """How many tasks were drawn so far beyond those of the iterations."""
        return int(self._surplus["drawn"])

    def waiting(self, method: Method) -> list[Batch]:
        """The groups that the method left in the iterations before, with what is recalled of them now."""
        groups: Batch | None = self._surplus["groups"]
        if groups is None or self._surplus["method"] != method.name:
            return []
        return [self.of_batch(method, groups)]

    def wait(self, method: Method, groups: Batch | None, iteration: int, beyond: int) -> None:
        """Keep groups for the next iteration, with the log-probabilities and rewards that they have; so many tasks were
        drawn beyond those of this one."""
        if groups is not None:
            names = [(*name, iteration) for name in groups["group.uid"]]  # other iterations count groups anew
            groups = groups.without([c for c in groups.columns if c.startswith("batch.")])
            groups = groups.with_columns({"group.uid": names})
        self.states["surplus"] = {"groups": groups, "drawn": self.beyond + beyond, "method": method.name}


def _like(value: Any, batch: Batch) -> Any:
    if isinstance(value, torch.Tensor):
        return value.to(device=batch.device, dtype=batch.dtype if value.is_floating_point() else None)
    return value
