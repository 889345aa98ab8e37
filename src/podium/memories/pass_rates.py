"""TODO How often each task was solved, visit by visit: rankings, and the hardest tasks in ever smaller sets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from podium.core.batch import Batch
from podium.core.errors import PodiumError, within
from podium.core.memory import Memory, State, Table, keys
from podium.core.part import Columns
from podium.parts.select.history import UNKNOWN

__all__ = ["PassRates", "Sweeps", "alignment"]


def alignment(histories: Sequence[Sequence[float]]) -> list[float]:
    """1 − Σ_e (a(e) − ā(e))² / Σ_e (1 − ā(e))², ā the mean of all histories, over the shortest of them.

    1 for a task whose curve is the average one; 0 for all where the average is 1 throughout.
    """
    length = min(map(len, histories), default=0)
    if not length:
        return [0.0] * len(histories)
    curves = torch.tensor([h[:length] for h in histories], dtype=torch.float64)
    mean = curves.mean(0)
    room = (1 - mean).square().sum()
    if room == 0:
        return [0.0] * len(histories)
    found: list[float] = (1 - (curves - mean).square().sum(1) / room).tolist()
    return found


class PassRates(Memory):
    """The share of right answers at every visit of a task: how often it was seen, its last rate, and how it moved.

    With a `source`, the directory of an earlier run, it begins with what that run has logged.
    """

    reference = "Reinforcement Learning for Reasoning with One Training Example, https://arxiv.org/abs/2504.20571"
    sees_dropped = True
    source: str | None = None  # a run's directory
    keep: int = 64  # visits of a task that are remembered at most, the last ones

    needs = ("rollout.correct",)
    provides = (
        "group.visits",
        *(f"group.pass_rate.{name}" for name in ("last", "spread", "alignment", "mixed")),
    )
    read_by_loop = ("source",)

    def __post_init__(self) -> None:
        within(self, "keep", 2)

    def initial(self) -> State:
        return {"rates": {} if self.source is None else _logged_rates(Path(self.source))}

    def recall(self, state: State, tasks: Sequence[Any]) -> Columns:
        rates: dict[Any, tuple[float, ...]] = state["rates"]
        names = keys(tasks)
        follows = dict(zip(rates, alignment(list(rates.values())), strict=True))
        found = [rates.get(task, ()) for task in names]
        columns = {
            "group.visits": [float(len(r)) for r in found],
            "group.pass_rate.last": [r[-1] if r else 0.5 for r in found],
            "group.pass_rate.spread": [float(np.std(r)) if r else 0.0 for r in found],
            "group.pass_rate.alignment": [follows.get(task, 0.0) for task in names],
            "group.pass_rate.mixed": [sum(0 < x < 1 for x in r) / len(r) if r else 0.0 for r in found],
        }
        return {name: torch.tensor(values, dtype=torch.float64) for name, values in columns.items()}

    def observe(self, state: State, batch: Batch) -> State:
        new = dict(state["rates"])
        for task, rate in observed_rates(batch).items():
            new[task] = (*new.get(task, ()), rate)[-self.keep :]
        return {"rates": new}


def observed_rates(batch: Batch) -> dict[Any, float]:
    """By task, the share of right answers among the rollouts that count, of all its groups."""
    rollouts, groups = batch.by("rollout", "group.task"), batch.partition("rollout", "group").agg
    rate = groups.max(rollouts.mean(batch["rollout.correct"].double())).tolist()
    there = groups.any(rollouts.count() > 0).tolist()
    names = keys(batch["group.task"])
    return dict(
        sorted(((t, r) for t, r, seen in zip(names, rate, there, strict=True) if seen), key=lambda x: str(x[0]))
    )


def _logged_rates(path: Path) -> dict[Any, tuple[float, ...]]:
    """The rates of the tasks of a run, iteration by iteration."""
    import pyarrow.parquet as pq

    seen: dict[Any, dict[int, list[bool]]] = {}
    for file in sorted((path / "rollouts").glob("*.parquet")):
        for row in pq.read_table(file, columns=["iteration", "task", "correct"]).to_pylist():
            seen.setdefault(row["task"], {}).setdefault(row["iteration"], []).append(row["correct"])
    if not seen:
        raise PodiumError(f"{path} has no logged rollouts to rank tasks by: give the directory of a run.")
    return {t: tuple(sum(right) / len(right) for _, right in sorted(visits.items())) for t, visits in seen.items()}


class Sweeps(Memory):
    """Rates of success measured before each phase of a curriculum: −1 where a task has not been measured yet.

    An iteration in which a task lacks its measurement is one of measuring; `iterations[k]` others are phase k.
    """

    reference = "DRIVE: Data Curation Best Practices for RLVR in Competitive Code Generation"
    sees_dropped = True
    iterations: tuple[int, ...] = (64, 32, 32)  # of each phase; the last one goes on

    needs = ("rollout.correct",)
    provides = ("group.sweep.rates", "batch.sweep.phase")

    def __post_init__(self) -> None:
        if not self.iterations or min(self.iterations) < 1:
            raise PodiumError(f"Sweeps.iterations = {self.iterations}: give at least one iteration for each phase.")

    def initial(self) -> State:
        return {"rates": Table(default=(UNKNOWN,) * len(self.iterations)), "phase": 0, "done": 0}

    def recall(self, state: State, tasks: Sequence[Any]) -> Columns:
        phase = torch.tensor([float(state["phase"])])
        return {"group.sweep.rates": state["rates"].read(tasks, torch.float64), "batch.sweep.phase": phase}

    def observe(self, state: State, batch: Batch) -> State:
        found, phase = observed_rates(batch), state["phase"]
        if not found:
            return state
        rows = state["rates"].read(list(found), torch.float64)
        due = rows[:, phase] == UNKNOWN
        if bool(due.any()):
            rate = torch.tensor(list(found.values()), dtype=torch.float64)
            rows[:, phase] = torch.where(due, rate, rows[:, phase])
            return {**state, "rates": state["rates"].write(list(found), rows)}
        done = state["done"] + 1
        over = done >= self.iterations[phase] and phase + 1 < len(self.iterations)
        return {**state, "phase": phase + 1, "done": 0} if over else {**state, "done": done}

    def scalars(self, state: State) -> dict[str, float]:
        return {"sweep.phase": float(state["phase"]), "sweep.done": float(state["done"])}
