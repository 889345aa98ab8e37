"""Credit in a forest: a segment gets what its rollouts are worth at its end, less what they were at its start."""

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
    """A = V(node) − V(parent), or that / (σ(parent) + ε): V of a leaf is its reward, of others the children's mean.

    σ is the population std of the values of the parent's children.
    """

    reference = "SPO, https://github.com/AIFrameResearch/SPO"
    scale: str = "none"  # none or std
    epsilon: float = 1e-8
    values: str = "children"  # whose mean V is: the direct children's, or all leaves' below

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
        """The trees, and the value and the spread of the children of each vertex."""
        forest, reward, counts = Forest.of(batch), batch["rollout.reward"].to(batch.dtype), batch.counted("rollout")
        value, spread = forest.fold(reward, counts)
        return forest, forest.mean(reward, counts) if self.values == "leaves" else value, spread

    def __call__(self, batch: Batch) -> Columns:
        forest, value, spread = self.folded(batch)
        rise = value - value[forest.parent]
        if self.scale == "std":
            rise = rise / (spread[forest.parent] + self.epsilon)
        return {"node.value": value[forest.vertex], "node.advantage": rise[forest.vertex]}


class BoundaryDifference(Advantage):
    """A = V(end of the segment) − V(its start): V is the mean reward of the probes that fork there, at the end R.

    Segments lie between the places where probes fork from the rollout. Before the first of them there is no value, and
    A = 0; so it is where the old policy was sure, p > `sure`. A probe that was cut off is worth `unfinished`.
    """

    reference = "SPO, https://github.com/AIFrameResearch/SPO"
    sure: float = 0.9
    unfinished: float | None = 0.0  # None: what its reward says

    provides = ("token.advantage",)

    def __post_init__(self) -> None:
        within(self, "sure", 0, 1, open_low=True)

    @property
    def needs(self) -> tuple[Need, ...]:
        cut = () if self.unfinished is None else ("rollout.truncated",)
        forest = ("rollout.purpose", "rollout.parent", "rollout.fork", "rollout.index")
        return ("rollout.reward", *forest, *cut, OLD)

    def __call__(self, batch: Batch) -> Columns:
        reward, parent, fork = batch["rollout.reward"].to(batch.dtype), parent_rows(batch), batch["rollout.fork"].long()
        worth = reward
        if self.unfinished is not None:
            worth = reward.masked_fill(batch["rollout.truncated"].bool(), self.unfinished)
        probe = ((batch["rollout.purpose"] == Purpose.baseline) & (parent >= 0)).nonzero().reshape(-1)
        position, rollout = batch.position("token", "rollout"), batch.link("token", "rollout")
        # The boundaries of all rollouts in one row, by rollout and place, between two that belong to nobody.
        span = int(torch.cat([fork, position]).max()) + 2 if len(fork) else 1
        cuts, cell = torch.unique(parent[probe] * span + fork[probe], return_inverse=True)
        value = Partition(cell, len(cuts)).agg.mean(worth[probe])
        cuts = torch.cat([cuts.new_tensor([-1]), cuts, cuts.new_tensor([len(batch) * span])])
        value = torch.cat([value.new_zeros(1), value, value.new_zeros(1)])
        after = torch.searchsorted(cuts, rollout * span + position, right=True)
        begun, ended = (cuts[place].div(span, rounding_mode="floor") == rollout for place in (after - 1, after))
        rise = value[after].where(ended, reward[rollout]) - value[after - 1]
        return {"token.advantage": rise.where(begun & (batch[OLD] <= math.log(self.sure)), 0)}


class PositionDifference(Advantage):
    """A = V(k') − V(k) from one branch position to the next, R − V(k) after the last; V(k) is the mean reward of the
    group's rollouts that have the position k. Long right answers are then held to the shortest right one, s:

        A ← A − |A| · (1 − ((L_s − k*) / (L − k*))^λ)  from k* on, the last position that both have.

    A rollout has the positions 0, its own fork and its ancestors', those of its children and of further descendants
    that fork no later than it does itself, and its parent's before its own fork. V knows positions alone: rollouts
    that fork at one place from different texts share it.
    """

    reference = "ROSE, https://github.com/ZiqiZhao1/ROSE-rl"
    length_exponent: Number = 0.0  # λ; 0: length does not count

    provides = ("token.advantage",)
    needs = ("rollout.reward", "rollout.parent", "rollout.fork", "rollout.index")

    def __post_init__(self) -> None:
        within(self, "length_exponent", 0)

    def places(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """[place] the positions at which anybody forks, ascending from 0; [rollout, place] who has which."""
        parent, fork = parent_rows(batch), batch["rollout.fork"].long()
        place = torch.unique(torch.cat([fork.new_zeros(1), fork[fork >= 0]]))
        column = torch.searchsorted(place, fork.clamp(min=0))
        has = torch.zeros(len(fork), len(place), dtype=torch.bool, device=fork.device)
        has[:, 0] = True
        everyone = torch.arange(len(fork), device=fork.device)
        generation = torch.zeros_like(fork)
        above = everyone
        while bool((above >= 0).any()):  # one's own fork and those of all ancestors
            there = (above >= 0) & (fork[above] >= 0)
            has[everyone[there], column[above[there]]] = True
            generation += above >= 0
            above = parent[above].where(above >= 0, -1)
        above = parent
        while bool((above >= 0).any()):  # a fork is the parent's too, and climbs while it is not later than theirs
            has[above[above >= 0], column[above >= 0]] = True
            climbs = (above >= 0) & (fork <= fork[above])
            above = parent[above].where(climbs, -1)
        for depth in range(2, int(generation.max()) + 1 if len(fork) else 0):
            here = (generation == depth).nonzero().reshape(-1)
            has[here] |= has[parent[here]] & (place < fork[here, None])
        return place, has

    def values(self, batch: Batch, has: Tensor) -> Tensor:
        """[group, place] the mean reward of the rollouts that have it."""
        counts = batch.counted("rollout")
        own = has.to(batch.dtype) if counts is None else (has & counts[:, None]).to(batch.dtype)
        reward, group = batch["rollout.reward"].to(batch.dtype), batch.link("rollout", "group")
        zeros = own.new_zeros(batch.size("group"), own.shape[1])
        count = zeros.index_add(0, group, own).clamp(min=1)
        return zeros.index_add(0, group, own * reward[:, None]) / count

    def __call__(self, batch: Batch) -> Columns:
        place, has = self.places(batch)
        value = self.values(batch, has)
        number = torch.arange(len(place), device=place.device).expand_as(has)
        before = number.where(has, 0).cummax(1).values  # [rollout, place] the last that the rollout has up to there
        none = torch.full_like(number[:, :1], len(place))
        after = torch.cat([number.where(has, len(place)), none], 1).flip(1).cummin(1).values.flip(1)
        rollout, group = batch.link("token", "rollout"), batch.link("token", "group")
        length = batch.length().long()
        at = torch.searchsorted(place, batch.position("token", "rollout"), right=True) - 1
        next_ = after[rollout, at + 1]
        inside = (next_ < len(place)) & (place[next_.clamp(max=len(place) - 1)] < length[rollout])
        end = value[group, next_.clamp(max=len(place) - 1)].where(
            inside, batch["rollout.reward"].to(batch.dtype)[rollout]
        )
        rise = end - value[group, before[rollout, at]]
        return {"token.advantage": rise - rise.abs() * self._excess(batch, place, has, length)}

    def _excess(self, batch: Batch, place: Tensor, has: Tensor, length: Tensor) -> Tensor:
        """[token] by which share of |A| it is lowered."""
        short = shortest_right(batch)
        common = has & has[short] & (place <= torch.minimum(length, length[short])[:, None])
        shared = place.expand_as(has).where(common, 0).amax(1)
        return excess(batch, short, shared, float(self.length_exponent))


def shortest_right(batch: Batch) -> Tensor:
    """[rollout] the row of the shortest rollout of its group with a reward that is not 0; the first of equals, and its
    own where there is none."""
    right, row = batch["rollout.reward"].abs() > 1e-6, torch.arange(len(batch), device=batch.device)
    groups = batch.by("rollout", "group", where=right)
    found = groups.max(row, groups.argmax(-batch.length(), right))
    return found.where(groups.count() > 0, row)


def excess(batch: Batch, shortest: Tensor, shared: Tensor, exponent: float) -> Tensor:
    """[token] 1 − ((L_s − k) / (L − k))^λ after the k tokens that a right rollout shares with the shortest one."""
    length, row = batch.length(), torch.arange(len(batch), device=batch.device)
    left = (length - shared).clamp(min=1)
    share = 1 - ((length[shortest] - shared).clamp(min=0) / left).pow(exponent)
    share = share.where((batch["rollout.reward"].abs() > 1e-6) & (row != shortest), 0).clamp(min=0)
    later = batch.position("token", "rollout") >= batch.spread(shared, "rollout", "token")
    return batch.spread(share, "rollout", "token").where(later, 0)


class FinalBaseline(Advantage):
    """A = x − mean of the group's final x, or that / (std + ε): final is the x of a rollout's last token.

    A rollout that is alone in its group has the mean 0 and the std 1.
    """

    reference = "DeepSearch, https://github.com/smiles724/DeepSearch"
    of: str = "node.reward"  # x, of nodes or tokens
    scale: str = "none"  # none or std (of the population)
    epsilon: float = 1e-6

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
            spread = groups.std(final, unbiased=False).where(several, 1) + self.epsilon
            advantage = advantage / batch.spread(spread, "rollout", "token")
        return {"token.advantage": advantage.where(batch.action, 0)}
