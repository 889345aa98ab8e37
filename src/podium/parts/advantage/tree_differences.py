"""Segment-level credit from trees of rollouts: the Monte Carlo value at a segment's end minus that at its start."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.branches import Forest, parent_rows
from podium.core.columns import Purpose
from podium.core.errors import one_of, within
from podium.core.part import Advantage, Columns, Need
from podium.core.partition import Partition
from podium.core.schedule import Number
from podium.core.signal import Signal

__all__ = [
    "BoundaryDifference",
    "FinalBaseline",
    "NodeDifference",
    "PositionDifference",
    "excess",
    "shortest_right",
]

OLD = Signal("logp", of="old")


class NodeDifference(Advantage):
    """Tree-based segment advantages: A = V(node) − V(parent), optionally divided by σ(parent) + ε.

    V of a leaf is its reward, of any other node the mean of its children; σ is the population std of the values of the
    parent's children. Without branching below the root and with scale = "std" this is GRPO with a population std.
    """

    reference = "SPO, https://github.com/AIFrameResearch/SPO"
    scale: str = "none"  # none or std
    epsilon: float = 1e-8  # ε, > 0
    values: str = "children"  # V is the mean of the direct children, or of all leaves below (leaves)

    needs = ("node.key", "rollout.reward")
    provides = ("node.value", "node.advantage")

    def __post_init__(self) -> None:
        one_of(self, "scale", ("none", "std"))
        one_of(self, "values", ("children", "leaves"))
        within(self, "epsilon", 0, open_low=True)

    @property
    def normalizes(self) -> bool:
        return self.scale == "std"

    def folded(self, batch: Batch) -> tuple[Forest, Tensor, Tensor]:
        """The trees, and V and the std of the children's values at each vertex."""
        forest, reward, counts = Forest.of(batch), batch["rollout.reward"].to(batch.dtype), batch.counted("rollout")
        value, std = forest.fold(reward, counts)
        return forest, forest.mean(reward, counts) if self.values == "leaves" else value, std

    def __call__(self, batch: Batch) -> Columns:
        forest, value, std = self.folded(batch)
        difference = value - value[forest.parent]
        if self.scale == "std":
            difference = difference / (std[forest.parent] + self.epsilon)
        return {"node.value": value[forest.vertex], "node.advantage": difference[forest.vertex]}


class BoundaryDifference(Advantage):
    """Segment advantages from Monte Carlo probes: A = V(end of the segment) − V(its start).

    V is the mean reward of the probes that fork at a boundary, and the rollout's own reward at its end. Segments lie
    between the positions where probes fork; before the first there is no value and A = 0. Tokens of which the old
    policy was sure, p > `sure`, get 0 as well (probability mask). sure = 1 masks nothing.
    """

    reference = "SPO, https://github.com/AIFrameResearch/SPO"
    sure: float = 0.9  # probability, in (0, 1]
    unfinished: float | None = 0.0  # the reward of a truncated probe; None: its own reward

    provides = ("token.advantage",)

    def __post_init__(self) -> None:
        within(self, "sure", 0, 1, open_low=True)

    @property
    def needs(self) -> tuple[Need, ...]:
        truncated = () if self.unfinished is None else ("rollout.truncated",)
        forest = ("rollout.purpose", "rollout.parent", "rollout.fork", "rollout.index")
        return ("rollout.reward", *forest, *truncated, OLD)

    def __call__(self, batch: Batch) -> Columns:
        reward, parent, fork = batch["rollout.reward"].to(batch.dtype), parent_rows(batch), batch["rollout.fork"].long()
        probe_reward = reward
        if self.unfinished is not None:
            probe_reward = reward.masked_fill(batch["rollout.truncated"].bool(), self.unfinished)
        probe = ((batch["rollout.purpose"] == Purpose.baseline) & (parent >= 0)).nonzero().reshape(-1)
        position, rollout = batch.position("token", "rollout"), batch.link("token", "rollout")
        # The boundaries of all rollouts in one row, sorted by rollout and position, between two sentinels.
        span = int(torch.cat([fork, position]).max()) + 2 if len(fork) else 1
        cuts, cell = torch.unique(parent[probe] * span + fork[probe], return_inverse=True)
        value = Partition(cell, len(cuts)).agg.mean(probe_reward[probe])
        cuts = torch.cat([cuts.new_tensor([-1]), cuts, cuts.new_tensor([len(batch) * span])])
        value = torch.cat([value.new_zeros(1), value, value.new_zeros(1)])
        after = torch.searchsorted(cuts, rollout * span + position, right=True)
        begun, ended = (cuts[place].div(span, rounding_mode="floor") == rollout for place in (after - 1, after))
        difference = value[after].where(ended, reward[rollout]) - value[after - 1]
        return {"token.advantage": difference.where(begun & (batch[OLD] <= math.log(self.sure)), 0)}


class PositionDifference(Advantage):
    """Segment advantages between branch positions, with a length penalty against the shortest right answer.

        A = V(k') − V(k) from one branch position k to the next k',  R − V(k) after the last
        A ← A − |A| · (1 − ((L_s − k*) / (L − k*))^λ) for a right rollout, from k* on

    V(k) is the mean reward of the group's rollouts that have the position k. s is the group's shortest right rollout,
    k* the last position that both have; λ = 0 is no length penalty.

    A rollout has the position 0, its own fork and those of its ancestors, those of its children and of further
    descendants that fork no later than it does, and its parent's before its own fork. V depends on positions alone:
    rollouts that fork at the same position from different texts share it.
    """

    reference = "ROSE, https://github.com/ZiqiZhao1/ROSE-rl"
    length_exponent: Number = 0.0  # λ, ≥ 0

    provides = ("token.advantage",)
    needs = ("rollout.reward", "rollout.parent", "rollout.fork", "rollout.index")

    def __post_init__(self) -> None:
        within(self, "length_exponent", 0)

    def places(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """[place] The positions at which rollouts fork, ascending from 0; [rollout, place] which rollout has which."""
        parent, fork = parent_rows(batch), batch["rollout.fork"].long()
        place = torch.unique(torch.cat([fork.new_zeros(1), fork[fork >= 0]]))
        column = torch.searchsorted(place, fork.clamp(min=0))
        has = torch.zeros(len(fork), len(place), dtype=torch.bool, device=fork.device)
        has[:, 0] = True
        rows = torch.arange(len(fork), device=fork.device)
        generation = torch.zeros_like(fork)
        ancestor = rows
        while bool((ancestor >= 0).any()):  # a rollout has its own fork and those of all ancestors
            forked = (ancestor >= 0) & (fork[ancestor] >= 0)
            has[rows[forked], column[ancestor[forked]]] = True
            generation += ancestor >= 0
            ancestor = parent[ancestor].where(ancestor >= 0, -1)
        ancestor = parent
        while bool((ancestor >= 0).any()):  # the parent has the fork too, and its parent if it forked no earlier
            has[ancestor[ancestor >= 0], column[ancestor >= 0]] = True
            climbs = (ancestor >= 0) & (fork <= fork[ancestor])
            ancestor = parent[ancestor].where(climbs, -1)
        for depth in range(2, int(generation.max()) + 1 if len(fork) else 0):
            members = (generation == depth).nonzero().reshape(-1)
            has[members] |= has[parent[members]] & (place < fork[members, None])
        return place, has

    def values(self, batch: Batch, has: Tensor) -> Tensor:
        """[group, place] The mean reward of the rollouts that have it."""
        counts = batch.counted("rollout")
        weight = has.to(batch.dtype) if counts is None else (has & counts[:, None]).to(batch.dtype)
        reward, group = batch["rollout.reward"].to(batch.dtype), batch.link("rollout", "group")
        zeros = weight.new_zeros(batch.size("group"), weight.shape[1])
        count = zeros.index_add(0, group, weight).clamp(min=1)
        return zeros.index_add(0, group, weight * reward[:, None]) / count

    def __call__(self, batch: Batch) -> Columns:
        place, has = self.places(batch)
        value = self.values(batch, has)
        number = torch.arange(len(place), device=place.device).expand_as(has)
        # [rollout, place] The last place that the rollout has up to there, and the first it has from there on.
        before = number.where(has, 0).cummax(1).values
        beyond = torch.full_like(number[:, :1], len(place))
        after = torch.cat([number.where(has, len(place)), beyond], 1).flip(1).cummin(1).values.flip(1)
        rollout, group = batch.link("token", "rollout"), batch.link("token", "group")
        length = batch.length().long()
        at = torch.searchsorted(place, batch.position("token", "rollout"), right=True) - 1
        next_ = after[rollout, at + 1]
        inside = (next_ < len(place)) & (place[next_.clamp(max=len(place) - 1)] < length[rollout])
        end = value[group, next_.clamp(max=len(place) - 1)].where(
            inside, batch["rollout.reward"].to(batch.dtype)[rollout]
        )
        difference = end - value[group, before[rollout, at]]
        return {"token.advantage": difference - difference.abs() * self._excess(batch, place, has, length)}

    def _excess(self, batch: Batch, place: Tensor, has: Tensor, length: Tensor) -> Tensor:
        """[token] The share of |A| by which A is lowered."""
        short = shortest_right(batch)
        common = has & has[short] & (place <= torch.minimum(length, length[short])[:, None])
        shared = place.expand_as(has).where(common, 0).amax(1)
        return excess(batch, short, shared, float(self.length_exponent))


def shortest_right(batch: Batch) -> Tensor:
    """[rollout] The row of its group's shortest rollout with a nonzero reward (first of equals), else its own."""
    right, row = batch["rollout.reward"].abs() > 1e-6, torch.arange(len(batch), device=batch.device)
    groups = batch.by("rollout", "group", where=right)
    shortest = groups.max(row, groups.argmax(-batch.length(), right))
    return shortest.where(groups.count() > 0, row)


def excess(batch: Batch, shortest: Tensor, shared: Tensor, exponent: float) -> Tensor:
    """[token] 1 − ((L_s − k) / (L − k))^λ after the k tokens that a right rollout shares with the shortest one."""
    length, row = batch.length(), torch.arange(len(batch), device=batch.device)
    remaining = (length - shared).clamp(min=1)
    share = 1 - ((length[shortest] - shared).clamp(min=0) / remaining).pow(exponent)
    share = share.where((batch["rollout.reward"].abs() > 1e-6) & (row != shortest), 0).clamp(min=0)
    later = batch.position("token", "rollout") >= batch.spread(shared, "rollout", "token")
    return batch.spread(share, "rollout", "token").where(later, 0)


class FinalBaseline(Advantage):
    """Centres node or token rewards x by the group's mean outcome: A = x − mean of final x, optionally / (std + ε).

    The final x of a rollout is that of its last token; mean and population std are over the group's rollouts. A rollout
    that is alone in its group has mean 0 and std 1. With x constant along each rollout this is GRPO's comparison.
    """

    reference = "DeepSearch, https://github.com/smiles724/DeepSearch"
    of: str = "node.reward"  # x, a column of nodes or tokens
    scale: str = "none"  # none or std
    epsilon: float = 1e-6  # ε, > 0

    def __post_init__(self) -> None:
        one_of(self, "scale", ("none", "std"))
        within(self, "epsilon", 0, open_low=True)

    @property
    def normalizes(self) -> bool:
        return self.scale == "std"

    @property
    def needs(self) -> tuple[Need, ...]:
        return (self.of,)

    @property
    def provides(self) -> tuple[str, ...]:
        return ("token.advantage",)

    def __call__(self, batch: Batch) -> Columns:
        x = batch.spread(batch[self.of].to(batch.dtype), self.of.partition(".")[0], "token")
        last = batch.last("token", "rollout", where=batch.action)
        final = batch.reduce(x, "token", "rollout", "sum", where=last)
        groups = batch.by("rollout", "group")
        several = groups.count() > 1
        advantage = x - batch.spread(groups.mean(final).where(several, 0), "rollout", "token")
        if self.scale == "std":
            std = groups.std(final, unbiased=False).where(several, 1) + self.epsilon
            advantage = advantage / batch.spread(std, "rollout", "token")
        return {"token.advantage": advantage.where(batch.action, 0)}
