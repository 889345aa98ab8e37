"""Memories: state that outlives an iteration, explicit and saved with every checkpoint.

A memory is a frozen value; its state is a plain dictionary that the loop carries. `recall` turns the state into
columns that any stage may read, `observe` returns the state after an iteration.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import PodiumError
from podium.core.facts import RunFacts
from podium.core.part import Columns, Need
from podium.core.relation import Relation
from podium.core.value import Value

__all__ = ["Memory", "State", "Table", "decode_state", "encode_state", "keys"]

State = dict[str, Any]


def keys(tasks: Sequence[Any] | Tensor) -> list[Any]:
    """The names of tasks, as keys of a dictionary."""
    return tasks.tolist() if isinstance(tasks, Tensor) else list(tasks)


class Memory(Value):
    """State that outlives an iteration."""

    keyed_by: ClassVar[str] = "task"  # what `recall` is asked about: task, domain, or card (task, domain, prompt)
    sees_dropped: ClassVar[bool] = False  # whether it observes groups that were sampled and dropped, too

    @property
    def needs(self) -> tuple[Need, ...]:
        """What `observe` reads from the batch."""
        return ()

    @property
    def provides(self) -> tuple[str, ...]:
        """What `recall` writes: `group.NAME` for values of tasks, `batch.NAME` for global ones."""
        return ()

    @property
    def remembers_tasks(self) -> bool:
        """Whether it recalls something of single tasks, so that it acts only if tasks come back."""
        return self.keyed_by == "task" and any(name.startswith("group.") for name in self.provides)

    def inert(self, facts: RunFacts) -> Iterable[str]:
        """Why it cannot act in such a run: sentences that continue its name, each with the remedy."""
        if self.remembers_tasks and not facts.tasks_come_back:
            yield "remembers tasks, and no task comes back in this run: set pool to fewer tasks than it samples."

    def initial(self) -> State:
        raise NotImplementedError

    def recall(self, state: State, tasks: Sequence[Any]) -> Columns:
        """Columns for these tasks; those at the level `group` have one row per task."""
        raise NotImplementedError

    def observe(self, state: State, batch: Batch) -> State:
        """The state after the iteration in which `batch` was trained. Must not depend on the order of its rows."""
        raise NotImplementedError

    def measured(self, state: State, values: Mapping[str, Any]) -> State:
        """The state once the numbers of an iteration are known: its metrics, and `eval.NAME` if it was evaluated."""
        return state

    def replay(self, state: State, batch: Batch) -> Batch | None:
        """Replayed rollouts of earlier iterations that are trained together with `batch`, with their advantages."""
        return None

    def revisit(self, state: State, batch: Batch) -> Batch | None:
        """Rollouts kept from earlier iterations whose tokens the policy scores again before this one is observed."""
        return None

    def revisited(self, batch: Batch, scored: Batch) -> Columns:
        """Columns of `batch` from those rollouts with their `token.now.logp`; memories that follow may read them."""
        return {}

    @property
    def reader(self) -> str:
        """The role whose value head scores tasks before they are sampled; empty: none."""
        return ""

    def reader_texts(self, state: State, prompts: Sequence[str]) -> list[str]:
        """The text that the reader scores for each task."""
        raise NotImplementedError

    def reader_columns(self, values: Tensor) -> Columns:
        """Columns of tasks from the reader's value of each text; they replace those of `recall`."""
        raise NotImplementedError

    def scalars(self, state: State) -> dict[str, float]:
        """Numbers that schedules can `Follow`."""
        return {}


class Table:
    """A row of numbers for each task, immutable: the usual state of a memory keyed by task."""

    def __init__(self, rows: Mapping[Any, tuple[float, ...]] | None = None, default: tuple[float, ...] = ()) -> None:
        self.rows = dict(rows or {})
        self.default = default

    def read(self, tasks: Sequence[Any] | Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
        """[task, column] the rows of these tasks, the default where a task is new."""
        rows = [self.rows.get(t, self.default) for t in keys(tasks)]
        return torch.tensor(rows, dtype=dtype) if rows else torch.zeros(0, len(self.default), dtype=dtype)

    def write(self, tasks: Sequence[Any] | Tensor, values: Tensor) -> Table:
        """A table in which these tasks have new rows; of a task that appears twice the last row counts."""
        new = {t: tuple(row) for t, row in zip(keys(tasks), values.tolist(), strict=True)}
        return Table(self.rows | new, self.default)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Table) and (self.rows, self.default) == (other.rows, other.default)

    def __len__(self) -> int:
        return len(self.rows)


def _batch_to_plain(batch: Batch) -> State:
    """A batch as plain data."""

    def copied(x: Any) -> Any:
        return x.cpu().clone() if isinstance(x, Tensor) else x

    plain: State = {
        "links": {f"{child} {parent}": copied(link) for (child, parent), link in batch._links.items()},
        "columns": {name: copied(column) for name, column in batch._columns.items()},
        "sizes": {level: batch.size(level) for level in batch.levels},
        "seed": batch.seed,
    }
    if batch.relations:
        plain["relations"] = {
            name: {
                "level": r.level,
                "left": copied(r.left),
                "right": copied(r.right),
                "columns": {column: copied(x) for column, x in r.columns.items()},
            }
            for name, r in ((name, batch.relation(name)) for name in batch.relations)
        }
    return plain


def _batch_from_plain(state: State) -> Batch:
    """The inverse of `_batch_to_plain`."""
    links = {(child, parent): x for (child, parent), x in ((k.split(" "), x) for k, x in state["links"].items())}
    relations = {name: Relation(**r) for name, r in state.get("relations", {}).items()}
    return Batch(links, state["columns"], sizes=state["sizes"], relations=relations, seed=state["seed"])


def encode_state(state: Any, tensors: dict[str, Tensor], path: str = "") -> Any:
    """A memory's state as plain JSON data; tensors go into `tensors` by path. No pickle: it may be untrusted."""
    if isinstance(state, Tensor):
        tensors[path] = state.contiguous()
        return {"tensor": path}
    if isinstance(state, Table):
        rows = [[encode_state(task, tensors, path), list(row)] for task, row in state.rows.items()]
        return {"table": rows, "default": list(state.default)}
    if isinstance(state, Batch):
        return {"batch": encode_state(_batch_to_plain(state), tensors, path)}
    if isinstance(state, dict):
        pairs = [[encode_state(k, tensors, path), encode_state(v, tensors, f"{path}/{k}")] for k, v in state.items()]
        return {"dict": pairs}
    if isinstance(state, (list, tuple)):
        kind = "tuple" if isinstance(state, tuple) else "list"
        return {kind: [encode_state(v, tensors, f"{path}/{i}") for i, v in enumerate(state)]}
    if state is None or isinstance(state, (bool, int, float, str)):
        return state
    raise PodiumError(f"A memory's state holds a {type(state).__name__} at {path!r}, which cannot be saved.")


def decode_state(data: Any, tensors: Mapping[str, Tensor]) -> Any:
    """The inverse of `encode_state`."""
    if not isinstance(data, dict):
        return data
    if "tensor" in data:
        return tensors[data["tensor"]]
    if "table" in data:
        rows = {decode_state(task, tensors): tuple(row) for task, row in data["table"]}
        return Table(rows, tuple(data["default"]))
    if "batch" in data:
        return _batch_from_plain(decode_state(data["batch"], tensors))
    if "dict" in data:
        return {decode_state(k, tensors): decode_state(v, tensors) for k, v in data["dict"]}
    if "tuple" in data:
        return tuple(decode_state(v, tensors) for v in data["tuple"])
    return [decode_state(v, tensors) for v in data["list"]]
