"""What outlives an iteration: the states of a method's memories, and the groups carried over to the next batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from podium.core.activity import label, recalled_elements
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
    """The states of memories by name, with the models that some of them ask. Methods in phases share them."""

    def __init__(self, method: Method, trainer: Trainer) -> None:
        self.trainer = trainer
        self.states: dict[str, State] = {type(m).__name__: m.initial() for m in method.memories}
        self._values: dict[str, float] = {}  # the readers' values of prompts in this iteration

    def begin(self) -> None:
        """Start an iteration: readers are asked anew."""
        self._values = {}

    # -- what they recall ------------------------------------------------------------------------------------------

    def scalars(self, method: Method) -> dict[str, float]:
        """Numbers that schedules can `Follow`."""
        return {k: x for m in method.memories for k, x in m.scalars(self.states[type(m).__name__]).items()}

    def of_tasks(self, method: Method, tasks: Sequence[Task]) -> Mapping[str, Any]:
        """What they recall of these tasks, by column."""
        keys = {
            "task": [t.key for t in tasks],
            "domain": [t.domain for t in tasks],
            "prompt": [str(t.prompt) for t in tasks],  # as rollouts record it
        }
        return self._recall(method, _with_cards(keys))

    def of_batch(self, method: Method, batch: Batch) -> Batch:
        """The batch with the columns that they recall."""
        recalled = self._recall(method, self._keys(batch))
        return batch.with_columns({k: _as_column(v, batch) for k, v in recalled.items()})

    def _keys(self, batch: Batch) -> dict[str, list[Any]]:
        """What memories are asked about: the tasks, domains and prompts of the groups."""
        first = batch.partition("rollout", "group").agg.first(torch.arange(len(batch), device=batch.device)).tolist()
        of_rollouts = {name: [batch[f"rollout.{name}"][i] for i in first] for name in ("domain", "prompt")}
        return _with_cards({"task": list(batch["group.task"]), **of_rollouts})

    def _recall(self, method: Method, keys: Mapping[str, Sequence[Any]]) -> Mapping[str, Any]:
        columns: dict[str, Any] = {}
        for memory in method.memories:
            state = self.states[type(memory).__name__]
            columns |= memory.recall(state, keys[memory.keyed_by])
            if memory.reader:
                columns |= memory.reader_columns(self._reader_values(memory, state, keys["prompt"]))
        return columns

    def _reader_values(self, memory: Memory, state: State, prompts: Sequence[str]) -> torch.Tensor:
        """[task] the value that a memory's reader gives to each prompt; it is asked about one once per iteration."""
        reader = self.trainer.roles[memory.reader]
        if not isinstance(reader, Critic):
            raise PodiumError(
                f"The role {memory.reader!r} reads tasks for {memory!r}, but its model has no value head: train one "
                "with podium values RUN --out DIR."
            )
        new = [prompt for prompt in dict.fromkeys(prompts) if prompt not in self._values]
        if new:
            self._values |= zip(new, values_of(reader, memory.reader_texts(state, new)).tolist(), strict=True)
        return torch.tensor([self._values[prompt] for prompt in prompts], dtype=torch.float64)

    # -- what they see ---------------------------------------------------------------------------------------------

    def acted(self, method: Method, batch: Batch) -> dict[str, int]:
        """By memory: how much of what it recalls of this batch it would not recall if it had seen nothing."""
        keys = self._keys(batch)
        return {
            label(m): recalled_elements(m, self.states[type(m).__name__], keys[m.keyed_by]) for m in method.memories
        }

    def observe(self, method: Method, batch: Batch, dropped: Sequence[Batch]) -> Batch:
        """Show them the batch that was trained, with the signals of the updated policy that each needs; to some also
        the groups that were dropped."""
        for memory in method.memories:
            name = type(memory).__name__
            stored = memory.revisit(self.states[name], batch)
            if stored is not None:
                scored = self.trainer.provide(stored, [Signal("logp")])
                batch = batch.with_columns(memory.revisited(batch, scored))
            after = [n for n in memory.needs if isinstance(n, Signal) and n.of == "now"]
            batch = self.trainer.provide(batch, after)
            observed = batch
            for groups in dropped if memory.sees_dropped else ():
                observed = join_batches(observed, groups)
            self.states[name] = memory.observe(self.states[name], observed)
        return batch

    def measured(self, method: Method, metrics: Mapping[str, Any]) -> None:
        """Show them what was measured."""
        for memory in method.memories:
            name = type(memory).__name__
            self.states[name] = memory.measured(self.states[name], metrics)

    # -- groups that are carried over ------------------------------------------------------------------------------

    @property
    def _surplus(self) -> State:
        return self.states.get("surplus", {"groups": None, "drawn": 0, "method": ""})

    @property
    def extra_tasks(self) -> int:
        """How many tasks the iterations so far have drawn in addition to `config.tasks` each."""
        return int(self._surplus["drawn"])

    def carried_over(self, method: Method) -> list[Batch]:
        """The groups that the method left over in earlier iterations, with what is recalled of their tasks now."""
        groups: Batch | None = self._surplus["groups"]
        if groups is None or self._surplus["method"] != method.name:
            return []
        return [self.of_batch(method, groups)]

    def carry_over(self, method: Method, groups: Batch | None, iteration: int, extra_tasks: int) -> None:
        """Hold groups for the next iteration, with their log-probabilities and rewards as they are. This iteration has
        drawn `extra_tasks` tasks more than it trains."""
        if groups is not None:
            names = [(*name, iteration) for name in groups["group.uid"]]  # other iterations number their groups anew
            groups = groups.without([c for c in groups.columns if c.startswith("batch.")])
            groups = groups.with_columns({"group.uid": names})
        drawn = self.extra_tasks + extra_tasks
        self.states["surplus"] = {"groups": groups, "drawn": drawn, "method": method.name}


def _with_cards(keys: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """With all three of each task together, for memories that need to know more than one."""
    return {**keys, "card": list(zip(keys["task"], keys["domain"], keys["prompt"], strict=True))}


def _as_column(value: Any, batch: Batch) -> Any:
    if isinstance(value, torch.Tensor):
        return value.to(device=batch.device, dtype=batch.dtype if value.is_floating_point() else None)
    return value
