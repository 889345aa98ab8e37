"""A replay buffer of rollouts by task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.memory import Memory, State, keys
from podium.core.part import Columns
from podium.core.signal import Signal

__all__ = ["StoredRollouts"]

LOGP, ENTROPY = Signal("logp", of="sampler"), Signal("entropy", of="sampler")


class StoredRollouts(Memory):
    """Stores the newest `most` right and `most` wrong rollouts of each task (`group.stored`).

    They keep their tokens, with the log-probabilities and entropies of when they were sampled. `group.stored.mean` is
    the task's pass rate over all rollouts so far; 1 before the first.
    """

    reference = "R³: Replay, Reflection and Ranking Rewards"
    most: int = 4  # rollouts, ≥ 1

    needs = (
        *("token.id", "turn.context", "turn.train_context", LOGP, ENTROPY),
        *("rollout.correct", "rollout.text", "rollout.answer", "rollout.truncated", "rollout.fresh"),
    )
    provides = ("group.stored", "group.stored.mean")

    def __post_init__(self) -> None:
        within(self, "most", 1)

    def initial(self) -> State:
        return {"rollouts": {}, "counts": {}}

    def recall(self, state: State, tasks: Sequence[Any]) -> Columns:
        names = keys(tasks)
        counts = [state["counts"].get(task, (0, 0)) for task in names]
        means = [right / count if count else 1.0 for right, count in counts]
        return {
            "group.stored": tuple(tuple(state["rollouts"].get(task, ())) for task in names),
            "group.stored.mean": torch.tensor(means, dtype=torch.float64),
        }

    def observe(self, state: State, batch: Batch) -> State:
        rollouts, counts = dict(state["rollouts"]), dict(state["counts"])
        fresh, counted = batch["rollout.fresh"], batch.counted("rollout")
        rows = (fresh if counted is None else fresh & counted).nonzero().reshape(-1).tolist()
        names, group = keys(batch["group.task"]), batch.link("rollout", "group").tolist()
        identity, turns = batch.identity("rollout").tolist(), _turns(batch)
        for row in sorted(rows, key=lambda r: (str(names[group[r]]), identity[r])):
            task, kept = names[group[row]], self._kept(batch, row, turns[row])
            right, count = counts.get(task, (0, 0))
            counts[task] = (right + int(kept["correct"]), count + 1)
            rollouts[task] = self._newest([*rollouts.get(task, ()), kept])
        return {"rollouts": rollouts, "counts": counts}

    def _newest(self, kept: list[State]) -> list[State]:
        right = [r for r in kept if r["correct"]][-self.most :]
        return [*right, *[r for r in kept if not r["correct"]][-self.most :]]

    def _kept(self, batch: Batch, row: int, turns: Sequence[State]) -> State:
        """A rollout as plain data."""
        return {
            "correct": bool(batch["rollout.correct"][row]),
            "text": str(batch["rollout.text"][row]),
            "answer": str(batch["rollout.answer"][row]),
            "truncated": bool(batch["rollout.truncated"][row]),
            "turns": list(turns),
        }


def _turns(batch: Batch) -> list[list[State]]:
    """The turns of each rollout as plain data, with the tokens that the model wrote."""
    written = batch.action
    ids, logp, entropy = (batch[column][written].tolist() for column in ("token.id", LOGP.column, ENTROPY.column))
    ends = batch.partition("token", "turn").agg.count(written).long().cumsum(0).tolist()
    pairs = zip([0, *ends], ends, batch["turn.context"], batch["turn.train_context"], strict=False)
    turns: list[State] = [
        {
            "ids": tuple(ids[a:b]),
            "context": tuple(context),
            "train_context": tuple(train_context),
            "logp": tuple(logp[a:b]),
            "entropy": tuple(entropy[a:b]),
        }
        for a, b, context, train_context in pairs
    ]
    last = batch.partition("turn", "rollout").lengths().cumsum(0).tolist()
    return [turns[a:b] for a, b in zip([0, *last], last, strict=False)]
