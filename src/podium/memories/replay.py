"""Rollouts of earlier iterations that are trained again, beside those of today."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.columns import Purpose
from podium.core.errors import PodiumError, one_of, within
from podium.core.memory import Memory, State, keys
from podium.core.part import Columns, Need
from podium.core.schedule import Number

__all__ = ["Kept", "PriorityReplay", "SuccessReplay", "bar", "beside", "dated", "subset_size", "young"]

OLDEST = 10  # iterations: an older rollout says too little about the policy of today


def young(stored: Tensor, newest: int, max_age: int) -> Tensor:
    """Whether what was stored at an iteration is at most `max_age` (and never more than 10) older than the newest."""
    return newest - stored <= min(max_age, OLDEST)


def beside(batch: Batch, rows: Batch) -> Batch:
    """The two as one batch, with the columns that both have, and what the first says of all."""
    rows = rows.with_columns({c: batch[c] for c in batch.columns if c.startswith("batch.")})
    shared = set(batch.columns) & set(rows.columns)
    batch, rows = (b.without(set(b.columns) - shared) for b in (batch, rows))
    return Batch.concat([batch, rows.to(device=batch.device)])


class Kept(Memory):
    """Rollouts of earlier iterations that come back beside those of today.

    They are in no statistics of the batch that they join. `group.fresh` tells the groups of today from them.
    """

    provides = ("group.fresh", "batch.replay.stored")

    def initial(self) -> State:
        return {"rows": None, "iteration": 0}

    def recall(self, state: State, tasks: Sequence[Any]) -> Columns:
        stored = 0 if state["rows"] is None else len(state["rows"])
        fresh = torch.ones(len(tasks), dtype=torch.bool)
        return {"group.fresh": fresh, "batch.replay.stored": torch.tensor([float(stored)])}

    def drawn(self, state: State, rows: Batch, batch: Batch, chance: Tensor) -> tuple[Tensor, Columns]:
        """The numbers of the stored rollouts that join `batch`, and what of all stored ones has changed since.

        `chance` holds a random number for each stored rollout.
        """
        raise NotImplementedError

    def replay(self, state: State, batch: Batch) -> Batch | None:
        rows: Batch | None = state["rows"]
        if rows is None:
            return None
        rows = rows.with_columns({})
        rows.seed = batch.seed  # the chance of today
        numbers, changed = self.drawn(state, rows, batch, rows.random("rollout", "replay"))
        if not len(numbers):
            return None
        today = {
            "rollout.purpose": torch.full((len(rows),), int(Purpose.demo)),
            "rollout.weight.replay": torch.ones(len(rows), dtype=rows.dtype),
            "group.fresh": torch.zeros(rows.size("group"), dtype=torch.bool),
        }
        return rows.with_columns({**today, **changed}).take("rollout", numbers.sort().values)


class _Buffer(Kept):
    """Keeps rollouts with the log-probabilities and advantages of their time; says which are trained once more.

    They are trained at `weight` times their loss, with the log-probabilities of their time in the ratio.
    """

    size: int = 8192  # rollouts that are kept at most, the newest
    max_age: int = 5  # iterations, at most 10
    weight: Number = 1.0  # of the loss of a replayed rollout

    def __post_init__(self) -> None:
        within(self, "size", 1)
        within(self, "max_age", 0)
        within(self, "weight", 0)

    # -- what a kind of buffer decides -----------------------------------------------------------------------------

    def worth(self, batch: Batch) -> Tensor:
        """[rollout] who is kept."""
        raise NotImplementedError

    def chosen(self, state: State, rows: Batch, batch: Batch, chance: Tensor) -> tuple[Tensor, Tensor]:
        """The numbers of the stored rollouts to train beside `batch`, and [stored rollout] their advantages of today.

        `chance` holds a random number for each of them.
        """
        raise NotImplementedError

    def emptied(self, state: State) -> bool:
        """Whether everything stored has been used up in this iteration."""
        return False

    # -- what all of them do ---------------------------------------------------------------------------------------

    def drawn(self, state: State, rows: Batch, batch: Batch, chance: Tensor) -> tuple[Tensor, Columns]:
        numbers, advantage = self.chosen(state, rows, batch, chance)
        weight = torch.full((len(rows),), float(self.weight), dtype=rows.dtype)
        changed: Columns = {"rollout.advantage": advantage, "rollout.weight.replay": weight}
        if "token.advantage" in rows.columns:  # a shape has moved some tokens' away from their rollout's
            moved = advantage - rows["rollout.advantage"]
            changed["token.advantage"] = rows["token.advantage"] + rows.spread(moved, "rollout", "token")
        return numbers, changed

    def observe(self, state: State, batch: Batch) -> State:
        iteration = state["iteration"] + 1
        rows: Batch | None = None if self.emptied(state) else state["rows"]
        worth = self.worth(batch) & batch.trained("rollout")
        if bool(worth.any()):
            order = torch.argsort(batch["rollout.advantage"], stable=True)
            order = order[torch.argsort(batch.identity("rollout")[order], stable=True)]
            new = dated(batch.take("rollout", order[worth[order]]), iteration)
            rows = new if rows is None else beside(rows, new)
        if rows is not None:
            kept = young(rows["rollout.stored"], iteration, self.max_age).nonzero().reshape(-1)[-self.size :]
            rows = None if not len(kept) else rows.take("rollout", kept) if len(kept) < len(rows) else rows
        return {**state, "rows": rows, "iteration": iteration}


def dated(batch: Batch, iteration: int) -> Batch:
    """Rollouts to be stored: what belongs to their batch, or to models that may move, is left behind."""
    kept = ("token.old.", "token.sampler.")
    gone = [c for c in batch.columns if c.startswith("batch.") or (c.endswith(".logp") and not c.startswith(kept))]
    names = keys(batch["group.uid"] if "group.uid" in batch else batch["group.task"])
    columns = {
        "group.uid": [(name, iteration) for name in names],
        "rollout.stored": torch.full((len(batch),), iteration),
    }
    return batch.without(gone).with_columns(columns).to(device="cpu").without_relations()


def bar(means: Tensor, reward: Tensor) -> Tensor:
    """What a win must beat: the median of recent group means, or where there are none the mean of the rewards."""
    return means.quantile(0.5) if len(means) else reward.mean()


def subset_size(kept: int, most: int) -> int:
    """min(2^⌊log2 n⌋, most) of n rollouts; 0 of one or none."""
    return 0 if kept <= 1 else min(1 << (kept.bit_length() - 1), most)


class SuccessReplay(_Buffer):
    """Successes, once there are enough that still are: A = r − the median of the recent group means, where above 0.

    Kept are rollouts of positive advantage (`where` says which else). When more than `above` · `count` of them have a
    reward above the median, a random 2^k of them, at most `count`, are trained once more, and all are forgotten.
    """

    reference = "SPEAR, https://github.com/TencentYoutuResearch/SPEAR"
    count: int = 2048  # rollouts that are replayed at most
    above: float = 1.5
    baselines: int = 10240  # group means that are remembered at most
    credit: str = "median"  # median: recalibrated; decay: `decay` times the stored advantage
    decay: float = 1.0
    std: bool = False  # whether recalibrated advantages are divided by the median std of the groups
    where: str | None = None  # a boolean column of rollouts: who else is left out

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, "count", 1)
        within(self, "above", 0)
        if self.size <= self.above * self.count:
            raise PodiumError(
                f"SuccessReplay keeps {self.size} rollouts and waits for more than {self.above:g} · {self.count}: "
                "raise its size or lower its count."
            )
        within(self, "baselines", 1)
        within(self, "decay", 0, 1, open_low=True)
        one_of(self, "credit", ("median", "decay"))

    @property
    def needs(self) -> tuple[Need, ...]:
        return ("rollout.reward", "rollout.advantage", *((self.where,) if self.where else ()))

    def initial(self) -> State:
        return {**super().initial(), "means": [], "stds": []}  # a list for each iteration

    def worth(self, batch: Batch) -> Tensor:
        good: Tensor = batch["rollout.advantage"] > 0
        return good & batch[self.where].bool() if self.where else good

    def advantages(self, state: State, rows: Batch) -> Tensor:
        """[stored rollout] its advantage of today."""
        logged = ([x for step in state[name] for x in step] for name in ("means", "stds"))
        means, stds = (torch.tensor(x, dtype=rows.dtype) for x in logged)
        scale = stds.quantile(0.5) + 1e-6 if self.std and len(stds) else 1.0
        return (rows["rollout.reward"] - bar(means, rows["rollout.reward"])) / scale

    def emptied(self, state: State) -> bool:
        rows = state["rows"]
        return rows is not None and int((self.advantages(state, rows) > 0).sum()) > self.above * self.count

    def chosen(self, state: State, rows: Batch, batch: Batch, chance: Tensor) -> tuple[Tensor, Tensor]:
        a = self.advantages(state, rows)
        if not self.emptied(state):
            return torch.zeros(0, dtype=torch.long), a
        kept = (a > 0).nonzero().reshape(-1)
        drawn = kept[torch.argsort(chance[kept])][: subset_size(len(kept), self.count)]
        return drawn, self.decay * rows["rollout.advantage"] if self.credit == "decay" else a

    def observe(self, state: State, batch: Batch) -> State:
        groups, reward = batch.by("rollout", "group").agg, batch["rollout.reward"].double()
        some = groups.count() > 0
        found = {"means": groups.mean(reward)[some], "stds": groups.std(reward)[some]}
        # A step's means in order of size: what is remembered does not depend on how groups are numbered.
        logged = {name: [*state[name], x.sort().values.tolist()] for name, x in found.items()}
        while sum(map(len, logged["means"])) > self.baselines and len(logged["means"]) > 1:
            logged = {name: steps[1:] for name, steps in logged.items()}
        return {**super().observe(state, batch), **logged}


class PriorityReplay(_Buffer):
    """Rollouts with an advantage are kept; p ∝ |A|^alpha says which take the places of those of today without one."""

    reference = "Skywork R1V2, https://github.com/SkyworkAI/Skywork-R1V"
    alpha: Number = 1.0
    count: int | None = None  # rollouts to replay; None: as many as today's have no advantage

    needs = ("rollout.advantage",)

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, "alpha", 0)
        within(self, "count", 0, optional=True)

    def worth(self, batch: Batch) -> Tensor:
        worth: Tensor = batch["rollout.advantage"] != 0
        return worth

    def probability(self, advantage: Tensor) -> Tensor:
        """[rollout] of being drawn first; 0 for an advantage of 0."""
        weight = (advantage.abs() ** self.alpha).where(advantage != 0, 0)
        return weight / weight.sum().clamp(min=torch.finfo(weight.dtype).tiny)

    def chosen(self, state: State, rows: Batch, batch: Batch, chance: Tensor) -> tuple[Tensor, Tensor]:
        a = rows["rollout.advantage"]
        idle = (batch["rollout.advantage"] == 0) & batch.trained("rollout", empty=True)
        # Of clocks that ring at these rates the first ones are taken: a draw without replacement.
        rings = -chance.clamp(min=1e-12).log() / self.probability(a)
        return torch.argsort(rings, stable=True)[: int(idle.sum()) if self.count is None else self.count], a
