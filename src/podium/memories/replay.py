"""Replay buffers: rollouts of earlier iterations that are trained again, off-policy, together with fresh ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.cells import overflow_safe
from podium.core.columns import Purpose
from podium.core.errors import PodiumError, one_of, within
from podium.core.memory import Memory, State, keys
from podium.core.part import Columns, Need
from podium.core.schedule import Number

__all__ = [
    "Kept",
    "PriorityReplay",
    "SuccessReplay",
    "for_storage",
    "is_recent",
    "join_batches",
    "reward_to_beat",
    "subset_size",
]

OLDEST = 10  # iterations; older rollouts are too far off-policy, whatever `max_age` is


def is_recent(stored: Tensor, newest: int, max_age: int) -> Tensor:
    """Whether rollouts stored at these iterations are at most `max_age` iterations old, and never more than 10."""
    return newest - stored <= min(max_age, OLDEST)


def join_batches(batch: Batch, rows: Batch) -> Batch:
    """The two as one batch, with the columns that both have; `batch.*` columns are those of the first. A relation that
    only one of them has joins nobody of the other."""
    rows = rows.with_columns({c: batch[c] for c in batch.columns if c.startswith("batch.")})
    shared = set(batch.columns) & set(rows.columns)
    batch, rows = (b.without(set(b.columns) - shared) for b in (batch, rows))
    rows = rows.to(device=batch.device)
    batch, rows = _with_relations_of(batch, rows), _with_relations_of(rows, batch)
    return Batch.concat([batch, rows])


def _with_relations_of(batch: Batch, other: Batch) -> Batch:
    missing = set(other.relations) - set(batch.relations)
    return batch.with_columns({name: other.relation(name).empty() for name in missing})


class Kept(Memory):
    """A store of earlier rollouts, some of which join the batch of an iteration.

    They do not count in its statistics. `group.fresh` is False for them.
    """

    provides = ("group.fresh", "batch.replay.stored")

    @property
    def remembers_tasks(self) -> bool:
        return False  # what it says of a task holds for all

    def initial(self) -> State:
        return {"rows": None, "iteration": 0}

    def recall(self, state: State, tasks: Sequence[Any]) -> Columns:
        stored = 0 if state["rows"] is None else len(state["rows"])
        fresh = torch.ones(len(tasks), dtype=torch.bool)
        return {"group.fresh": fresh, "batch.replay.stored": torch.tensor([float(stored)])}

    def draw(self, state: State, rows: Batch, batch: Batch, random: Tensor) -> tuple[Tensor, Columns]:
        """The indices of the stored rollouts that join `batch`, and columns of all stored ones to update.

        `random` holds a uniform number for each stored rollout.
        """
        raise NotImplementedError

    def replay(self, state: State, batch: Batch) -> Batch | None:
        rows: Batch | None = state["rows"]
        if rows is None:
            return None
        rows = rows.with_columns({})
        rows.seed = batch.seed  # random numbers differ from iteration to iteration
        indices, updated = self.draw(state, rows, batch, rows.random("rollout", "replay"))
        if not len(indices):
            return None
        columns = {
            "rollout.purpose": torch.full((len(rows),), int(Purpose.demo)),
            "rollout.weight.replay": torch.ones(len(rows), dtype=rows.dtype),
            "group.fresh": torch.zeros(rows.size("group"), dtype=torch.bool),
        }
        return rows.with_columns({**columns, **updated}).take("rollout", indices.sort().values)


class _Buffer(Kept):
    """A replay buffer of rollouts with the log-probabilities and advantages of when they were sampled.

    Those log-probabilities are the old ones of the importance ratio; the loss of a replayed rollout is multiplied by
    `weight`.
    """

    size: int = 8192  # capacity in rollouts, the newest are kept, ≥ 1
    max_age: int = 5  # iterations, ≥ 0; never more than 10
    weight: Number = 1.0  # of the loss of a replayed rollout, ≥ 0

    def __post_init__(self) -> None:
        within(self, "size", 1)
        within(self, "max_age", 0)
        within(self, "weight", 0)

    # -- what a kind of buffer decides -----------------------------------------------------------------------------

    def admits(self, batch: Batch) -> Tensor:
        """[rollout] Whether it is stored."""
        raise NotImplementedError

    def chosen(self, state: State, rows: Batch, batch: Batch, random: Tensor) -> tuple[Tensor, Tensor]:
        """The indices of the stored rollouts to replay with `batch`, and [stored rollout] their current advantages.

        `random` holds a uniform number for each of them.
        """
        raise NotImplementedError

    def emptied(self, state: State) -> bool:
        """Whether this iteration uses up the buffer, so that it starts empty again."""
        return False

    # -- what all of them do ---------------------------------------------------------------------------------------

    def draw(self, state: State, rows: Batch, batch: Batch, random: Tensor) -> tuple[Tensor, Columns]:
        indices, advantage = self.chosen(state, rows, batch, random)
        weight = torch.full((len(rows),), float(self.weight), dtype=rows.dtype)
        updated: Columns = {"rollout.advantage": advantage, "rollout.weight.replay": weight}
        if "token.advantage" in rows.columns:  # shaped token advantages move by as much as their rollout's
            change = advantage - rows["rollout.advantage"]
            updated["token.advantage"] = rows["token.advantage"] + rows.spread(change, "rollout", "token")
        return indices, updated

    def observe(self, state: State, batch: Batch) -> State:
        iteration = state["iteration"] + 1
        rows: Batch | None = None if self.emptied(state) else state["rows"]
        admitted = self.admits(batch) & batch.trained("rollout")
        if bool(admitted.any()):
            order = torch.argsort(batch["rollout.advantage"], stable=True)
            order = order[torch.argsort(batch.identity("rollout")[order], stable=True)]
            new = for_storage(batch.take("rollout", order[admitted[order]]), iteration)
            rows = new if rows is None else join_batches(rows, new)
        if rows is not None:
            kept = is_recent(rows["rollout.stored"], iteration, self.max_age).nonzero().reshape(-1)[-self.size :]
            rows = None if not len(kept) else rows.take("rollout", kept) if len(kept) < len(rows) else rows
        return {**state, "rows": rows, "iteration": iteration}


def for_storage(batch: Batch, iteration: int) -> Batch:
    """The rollouts as they are stored: dated, on the CPU, and without `batch.*` columns, relations and the
    log-probabilities of models that change (all but those of the old policy and the sampler)."""
    constant = ("token.old.", "token.sampler.")
    dropped = [
        c for c in batch.columns if c.startswith("batch.") or (c.endswith(".logp") and not c.startswith(constant))
    ]
    names = keys(batch["group.uid"] if "group.uid" in batch else batch["group.task"])
    columns = {
        "group.uid": [(name, iteration) for name in names],
        "rollout.stored": torch.full((len(batch),), iteration),
    }
    return batch.without(dropped).with_columns(columns).to(device="cpu").without_relations()


def reward_to_beat(means: Tensor, reward: Tensor) -> Tensor:
    """The median of recent group means; without any, the mean of the rewards."""
    return means.quantile(0.5) if len(means) else reward.mean()


def subset_size(kept: int, most: int) -> int:
    """The size min(2^⌊log2 n⌋, most) of a random subset of n = `kept` rollouts; 0 for n ≤ 1."""
    return 0 if kept <= 1 else min(1 << (kept.bit_length() - 1), most)


class SuccessReplay(_Buffer):
    """Self-imitation: stores rollouts of positive advantage and replays those that still beat the current baseline.

        A = r − the median of recent group means

    Once more than `above` · `count` stored rollouts have A > 0, a random 2^k of them, at most `count`, are replayed and
    the buffer is emptied.
    """

    reference = "SPEAR, https://github.com/TencentYoutuResearch/SPEAR"
    count: int = 2048  # replayed rollouts, at most, ≥ 1
    above: float = 1.5  # ≥ 0
    baselines: int = 10240  # group means that are remembered, the most recent, ≥ 1
    credit: str = "median"  # advantage of a replayed rollout: median (as above) or decay (`decay` · the stored one)
    decay: float = 1.0  # in (0, 1]
    std: bool = False  # whether A is divided by the median std of the groups
    where: str | None = None  # a boolean column: only rollouts where it is True are stored; None: all

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
        return {**super().initial(), "means": [], "stds": []}  # one list per iteration

    def admits(self, batch: Batch) -> Tensor:
        good: Tensor = batch["rollout.advantage"] > 0
        return good & batch[self.where].bool() if self.where else good

    def advantages(self, state: State, rows: Batch) -> Tensor:
        """[stored rollout] Its advantage against the current baseline."""
        logged = ([x for iteration in state[name] for x in iteration] for name in ("means", "stds"))
        means, stds = (torch.tensor(x, dtype=rows.dtype) for x in logged)
        scale = stds.quantile(0.5) + 1e-6 if self.std and len(stds) else 1.0
        return (rows["rollout.reward"] - reward_to_beat(means, rows["rollout.reward"])) / scale

    def emptied(self, state: State) -> bool:
        rows = state["rows"]
        return rows is not None and int((self.advantages(state, rows) > 0).sum()) > self.above * self.count

    def chosen(self, state: State, rows: Batch, batch: Batch, random: Tensor) -> tuple[Tensor, Tensor]:
        a = self.advantages(state, rows)
        if not self.emptied(state):
            return torch.zeros(0, dtype=torch.long), a
        successes = (a > 0).nonzero().reshape(-1)
        drawn = successes[torch.argsort(random[successes])][: subset_size(len(successes), self.count)]
        return drawn, self.decay * rows["rollout.advantage"] if self.credit == "decay" else a

    def observe(self, state: State, batch: Batch) -> State:
        groups, reward = batch.by("rollout", "group").agg, batch["rollout.reward"].double()
        observed = groups.count() > 0
        new = {"means": groups.mean(reward)[observed], "stds": groups.std(reward)[observed]}
        # Sorted, so that what is remembered does not depend on how groups are numbered.
        logged = {name: [*state[name], x.sort().values.tolist()] for name, x in new.items()}
        while sum(map(len, logged["means"])) > self.baselines and len(logged["means"]) > 1:
            logged = {name: iterations[1:] for name, iterations in logged.items()}
        return {**super().observe(state, batch), **logged}


class PriorityReplay(_Buffer):
    """Prioritised replay: stores rollouts with A ≠ 0 and replays them with probability ∝ |A|^alpha.

    They replace the fresh rollouts whose advantage vanishes (selective sample buffer). alpha = 0 draws uniformly.
    """

    reference = "Skywork R1V2, https://github.com/SkyworkAI/Skywork-R1V"
    alpha: Number = 1.0  # ≥ 0
    count: int | None = None  # replayed rollouts, ≥ 0; None: as many as fresh rollouts have A = 0

    needs = ("rollout.advantage",)

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, "alpha", 0)
        within(self, "count", 0, optional=True)

    def admits(self, batch: Batch) -> Tensor:
        nonzero: Tensor = batch["rollout.advantage"] != 0
        return nonzero

    def probability(self, advantage: Tensor) -> Tensor:
        """[rollout] The probability of being drawn first; 0 for an advantage of 0."""

        def share(a: Tensor) -> Tensor:
            weight: Tensor = (a.abs() ** self.alpha).where(a != 0, 0)
            return weight / weight.sum().clamp(min=torch.finfo(weight.dtype).tiny)

        return overflow_safe(share, advantage)

    def chosen(self, state: State, rows: Batch, batch: Batch, random: Tensor) -> tuple[Tensor, Tensor]:
        a = rows["rollout.advantage"]
        vanishing = (batch["rollout.advantage"] == 0) & batch.trained("rollout", empty=True)
        # The earliest of exponential arrival times with these rates: a weighted draw without replacement.
        arrival = -random.clamp(min=1e-12).log() / self.probability(a)
        return torch.argsort(arrival, stable=True)[: int(vanishing.sum()) if self.count is None else self.count], a
