"""Right answers to hard tasks, replayed in the next round."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.memory import Memory, State, keys
from podium.core.part import Columns
from podium.core.schedule import Count

__all__ = ["SolvedTexts"]


class SolvedTexts(Memory):
    """Stores right answers to hard tasks: those with a pass rate in (0, `at_most`] over a round of iterations.

    `group.solved` holds their token ids in the next round; empty for a task without any.
    """

    reference = "DeepSearch, https://github.com/smiles724/DeepSearch"
    iterations: Count = 100  # per round, ≥ 1
    at_most: float = 0.25  # pass rate, in [0, 1]

    needs = ("rollout.correct", "token.id", "group.task")
    provides = ("group.solved",)

    def __post_init__(self) -> None:
        within(self, "iterations", 1)
        within(self, "at_most", 0, 1)

    def initial(self) -> State:
        return {"done": 0, "seen": {}, "solved": {}}

    def recall(self, state: State, tasks: Sequence[Any]) -> Columns:
        return {"group.solved": tuple(state["solved"].get(task, ()) for task in keys(tasks))}

    def observe(self, state: State, batch: Batch) -> State:
        if not bool(batch.trained("group", empty=True).any()):
            return state  # an iteration that only measures belongs to no round
        seen: dict[Any, tuple[int, int, tuple[tuple[int, ...], ...]]] = dict(state["seen"])
        counted, right = batch.counted("rollout"), batch["rollout.correct"].bool().tolist()
        enters = [True] * len(batch) if counted is None else counted.tolist()
        lengths = batch.length().long().tolist()
        texts = [tuple(ids.tolist()) for ids in batch["token.id"][batch.action].split(lengths)]
        tasks, group = keys(batch["group.task"]), batch.link("rollout", "group").tolist()
        for task in dict.fromkeys(tasks):
            rows = [i for i, g in enumerate(group) if tasks[g] == task and enters[i]]
            total, solved, answers = seen.get(task, (0, 0, ()))
            merged = sorted({texts[i] for i in rows if right[i]} | set(answers))
            seen[task] = (total + len(rows), solved + sum(right[i] for i in rows), tuple(merged))
        done = state["done"] + 1
        if done % self.iterations:
            return {"done": done, "seen": seen, "solved": state["solved"]}
        hard = {t: x for t, (n, k, x) in seen.items() if n and 0 < k <= self.at_most * n}
        return {"done": done, "seen": {}, "solved": hard}

    def scalars(self, state: State) -> dict[str, float]:
        return {"solved": float(sum(len(texts) for texts in state["solved"].values()))}
