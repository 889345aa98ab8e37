"""Pass rates of each task: at every visit, or measured before each phase of a curriculum."""

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
from podium.core.schedule import Count
from podium.parts.select.history import UNKNOWN

__all__ = ["PassRates", "Sweeps", "alignment"]


def alignment(histories: Sequence[Sequence[float]]) -> list[float]:
    """How closely each history follows the average learning curve: 1 − Σ_e (a(e) − ā(e))² / Σ_e (1 − ā(e))².

    ā is the mean of all histories, cut to the shortest. 1 for a task that follows it exactly; 0 for all tasks if the
    average is 1 throughout.
    """
    length = min(map(len, histories), default=0)
    if not length:
        return [0.0] * len(histories)
    curves = torch.tensor([h[:length] for h in histories], dtype=torch.float64)
    mean = curves.mean(0)
    headroom = (1 - mean).square().sum()
    if headroom == 0:
        return [0.0] * len(histories)
    aligned: list[float] = (1 - (curves - mean).square().sum(1) / headroom).tolist()
    return aligned


class PassRates(Memory):
    """The pass rate of each task at every visit, and what follows from its history.

    Recalls the number of visits, the last rate (½ at first), the highest one (0 at first), the std of the rates
    (`spread`), the alignment with the average learning curve, and the share of visits with mixed outcomes. With a
    `source` it starts from the logs of an earlier run.
    """

    reference = "Reinforcement Learning for Reasoning with One Training Example, https://arxiv.org/abs/2504.20571"
    sees_dropped = True
    source: str | None = None  # the directory of an earlier run; None: start empty
    keep: int = 64  # visits per task that are remembered, the most recent ones, ≥ 2

    needs = ("rollout.correct",)
    provides = (
        "group.visits",
        *(f"group.pass_rate.{name}" for name in ("last", "highest", "spread", "alignment", "mixed")),
    )
    read_by_loop = ("source",)

    def __post_init__(self) -> None:
        within(self, "keep", 2)

    def initial(self) -> State:
        return {"rates": {} if self.source is None else logged_rates(Path(self.source))}

    def recall(self, state: State, tasks: Sequence[Any]) -> Columns:
        rates: dict[Any, tuple[float, ...]] = state["rates"]
        names = keys(tasks)
        aligned = dict(zip(rates, alignment(list(rates.values())), strict=True))
        histories = [rates.get(task, ()) for task in names]
        columns = {
            "group.visits": [float(len(h)) for h in histories],
            "group.pass_rate.last": [h[-1] if h else 0.5 for h in histories],
            "group.pass_rate.highest": [max(h, default=0.0) for h in histories],
            "group.pass_rate.spread": [float(np.std(h)) if h else 0.0 for h in histories],
            "group.pass_rate.alignment": [aligned.get(task, 0.0) for task in names],
            "group.pass_rate.mixed": [sum(0 < x < 1 for x in h) / len(h) if h else 0.0 for h in histories],
        }
        return {name: torch.tensor(values, dtype=torch.float64) for name, values in columns.items()}

    def observe(self, state: State, batch: Batch) -> State:
        new = dict(state["rates"])
        for task, rate in observed_rates(batch).items():
            new[task] = (*new.get(task, ()), rate)[-self.keep :]
        return {"rates": new}


def observed_rates(batch: Batch) -> dict[Any, float]:
    """By task, the share of right answers among the rollouts of all its groups that count."""
    rollouts, groups = batch.by("rollout", "group.task"), batch.partition("rollout", "group").agg
    rates = groups.max(rollouts.mean(batch["rollout.correct"].double())).tolist()
    observed = groups.any(rollouts.count() > 0).tolist()
    rows = zip(keys(batch["group.task"]), rates, observed, strict=True)
    return dict(sorted(((task, rate) for task, rate, seen in rows if seen), key=lambda row: str(row[0])))


def logged_rates(path: Path) -> dict[Any, tuple[float, ...]]:
    """The pass rates of each task of a run, iteration by iteration."""
    from podium.store.tables import read_rows, rollout_files

    seen: dict[Any, dict[int, list[bool]]] = {}
    for file in rollout_files(path).values():
        for row in read_rows(file, ["iteration", "task", "correct"]):
            seen.setdefault(row["task"], {}).setdefault(row["iteration"], []).append(row["correct"])
    if not seen:
        raise PodiumError(f"{path} has no logged rollouts to rank tasks by: give the directory of a run.")
    return {t: tuple(sum(right) / len(right) for _, right in sorted(visits.items())) for t, visits in seen.items()}


class Sweeps(Memory):
    """Pass rates measured before each phase of a curriculum (`group.sweep.rates`); −1: not measured yet.

    An iteration with a task that lacks its measurement is a measuring sweep; phase k ends after `iterations[k]` others.
    """

    reference = "DRIVE: Data Curation Best Practices for RLVR in Competitive Code Generation"
    sees_dropped = True
    iterations: tuple[Count, ...] = (64, 32, 32)  # per phase, ≥ 1; the last one does not end

    needs = ("rollout.correct",)
    provides = ("group.sweep.rates", "batch.sweep.phase")

    def __post_init__(self) -> None:
        if not self.iterations or any(isinstance(count, int) and count < 1 for count in self.iterations):
            raise PodiumError(f"Sweeps.iterations = {self.iterations}: give at least one iteration for each phase.")

    def initial(self) -> State:
        return {"rates": Table(default=(UNKNOWN,) * len(self.iterations)), "phase": 0, "done": 0}

    def recall(self, state: State, tasks: Sequence[Any]) -> Columns:
        phase = torch.tensor([float(state["phase"])])
        return {"group.sweep.rates": state["rates"].read(tasks, torch.float64), "batch.sweep.phase": phase}

    def observe(self, state: State, batch: Batch) -> State:
        observed, phase = observed_rates(batch), state["phase"]
        if not observed:
            return state
        rows = state["rates"].read(list(observed), torch.float64)
        due = rows[:, phase] == UNKNOWN
        if bool(due.any()):
            rate = torch.tensor(list(observed.values()), dtype=torch.float64)
            rows[:, phase] = torch.where(due, rate, rows[:, phase])
            return {**state, "rates": state["rates"].write(list(observed), rows)}
        done = state["done"] + 1
        over = done >= self.iterations[phase] and phase + 1 < len(self.iterations)
        return {**state, "phase": phase + 1, "done": 0} if over else {**state, "done": done}

    def scalars(self, state: State) -> dict[str, float]:
        return {"sweep.phase": float(state["phase"]), "sweep.done": float(state["done"])}
