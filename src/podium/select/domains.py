"""More of the domains in which the policy is weak."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import one_of, within
from podium.core.memory import Memory, State
from podium.core.part import Columns, Select, repeated
from podium.core.schedule import Number

__all__ = ["ByDomain", "DomainRewards", "places"]

REFERENCE = "RuleReasoner, https://github.com/bigai-nlco/RuleReasoner"
Sums = Mapping[str, tuple[float, float]]  # by domain: the sum of its rewards in a batch, and how many there were


class DomainRewards(Memory):
    """`group.domain.deficit`: max(0, target − r̄), with r̄ the domain's mean reward over the last `size` batches;
    `group.domain.seen` says whether it is known.

    `buffer`: rewards are multiplied by 1/(age + 1), 0.5^age or 1, and the target is `base` times the mean of these
    factors over a full buffer. `ewma`: r̄ = alpha · its last value + (1 − alpha) · the mean of the last batch (that
    alone where the last value is 0), and the target is `base`. A domain that was not seen lacks the whole target.
    """

    reference = REFERENCE
    sees_dropped = True
    keyed_by = "domain"
    variant: str = "buffer"
    size: int = 4  # batches
    decay: str = "harmonic"  # of the rewards of `buffer` by age: harmonic, geometric, none
    base: float = 1.0  # the reward that counts as mastery, in (0, 1]
    alpha: float = 0.5
    every: int = 8  # iterations between two looks at the rewards
    forget: bool = False  # whether the buffer is emptied after every iteration, as in the release

    needs = ("rollout.domain", "rollout.correct")
    provides = ("group.domain.deficit", "group.domain.seen")

    def __post_init__(self) -> None:
        one_of(self, "variant", ("buffer", "ewma"))
        one_of(self, "decay", ("harmonic", "geometric", "none"))
        within(self, "size", 1)
        within(self, "every", 1)
        within(self, "base", 0, 1, open_low=True)
        within(self, "alpha", 0, 1)

    def initial(self) -> State:
        return {"buffer": [], "history": {}, "deficit": {}, "iteration": 0}

    def factor(self, age: int) -> float:
        """What a reward of this age is multiplied by."""
        return {"harmonic": 1 / (age + 1), "geometric": 0.5**age, "none": 1.0}[self.decay]

    def target(self, held: int) -> float:
        """The mean decayed reward of a domain that is mastered, with so many batches in the buffer."""
        if self.variant == "ewma":
            return self.base
        ages = held if self.decay == "none" else self.size
        return self.base * sum(self.factor(age) for age in range(ages)) / self.size

    def means(self, buffer: Sequence[Sums], history: Mapping[str, float]) -> dict[str, float]:
        """r̄ of every domain of the buffer, whose oldest batch comes first."""
        if self.variant == "ewma":
            found = {d: total / count for d, (total, count) in buffer[-1].items()}
            return {
                d: self.alpha * history[d] + (1 - self.alpha) * x if history.get(d) else x for d, x in found.items()
            }
        total: dict[str, list[float]] = {}
        ages = list(enumerate(reversed(buffer)))
        # The release walks back from the newest batch where it damps; of equal domains the first it meets go first.
        for age, batch in reversed(ages) if self.decay == "none" else ages:
            for domain, (rewards, count) in batch.items():
                kept = total.setdefault(domain, [0.0, 0.0])
                kept[0] += self.factor(age) * rewards
                kept[1] += count
        return {domain: rewards / count for domain, (rewards, count) in total.items()}

    def deficits(
        self, buffer: Sequence[Sums], history: Mapping[str, float]
    ) -> tuple[dict[str, float], dict[str, float]]:
        """What every domain of the buffer lacks, and its r̄."""
        means = self.means(buffer, history)
        return {d: max(0.0, self.target(len(buffer)) - mean) for d, mean in means.items()}, means

    def recall(self, state: State, tasks: Sequence[Any]) -> Columns:
        unseen = self.target(max(len(state["buffer"]), 1))
        found = [state["deficit"].get(domain, unseen) for domain in tasks]
        return {
            "group.domain.deficit": torch.tensor(found, dtype=torch.float64),
            "group.domain.seen": torch.tensor([domain in state["deficit"] for domain in tasks], dtype=torch.bool),
        }

    def observe(self, state: State, batch: Batch) -> State:
        counted, correct = batch.by("rollout").enters(), batch["rollout.correct"].double().tolist()
        there = [True] * len(batch) if counted is None else counted.tolist()
        seen: dict[str, tuple[float, float]] = {}
        for domain, right, counts in sorted(zip(batch["rollout.domain"], correct, there, strict=True)):
            if counts:
                total, count = seen.get(domain, (0.0, 0.0))
                seen[domain] = (total + right, count + 1)
        if not seen:
            return state
        iteration, buffer = state["iteration"] + 1, [*state["buffer"], seen][-self.size :]
        new = {**state, "iteration": iteration, "buffer": [] if self.forget else buffer}
        if iteration % self.every:
            return new
        deficit, means = self.deficits(buffer, state["history"])
        return {**new, "deficit": {**state["deficit"], **deficit}, "history": {**state["history"], **means}}

    def scalars(self, state: State) -> dict[str, float]:
        return {f"domain.deficit.{domain}": x for domain, x in sorted(state["deficit"].items())}


def places(weight: Tensor, count: int, least: int = 0) -> Tensor:
    """[domain] ⌊count · w⌋ places of a batch, those left over one each to the highest weights, at least `least`.

    The least is taken from whoever has most; in a batch that is too small for it, the lowest weights get nothing.
    """
    n = (count * weight.double()).floor().long()
    order = torch.argsort(weight, descending=True, stable=True)
    for domain in repeated(order, int(count - n.sum())).tolist() if int(n.sum()) < count else ():
        n[domain] += 1
    for domain in order.tolist():
        while n[domain] < least and n.max() > max(least, int(n[domain]) + 1):
            n[n.argmax()] -= 1
            n[domain] += 1
    return n


class ByDomain(Select):
    """Domains by softmax(deficit / temperature), tasks inside a domain in turn, in a random order.

    The number of tasks of a domain is fixed by its weight (`places`). A domain whose tasks have all been sampled begins
    again. Before the rewards are first looked at, domains are drawn alike, or by their number of tasks: 1/√size, or
    e^(1/√size), over its sum.
    """

    reference = REFERENCE
    temperature: Number = 0.3
    least: int = 1  # tasks of every domain
    start: str = "uniform"  # uniform, root (1/√size) or exponential (e^(1/√size))

    needs = ("group.domain.code", "group.domain.deficit", "group.domain.seen", "group.visits")
    read_by_loop = ("least",)

    def __post_init__(self) -> None:
        within(self, "temperature", 0, open_low=True)
        within(self, "least", 0)
        one_of(self, "start", ("uniform", "root", "exponential"))

    def first(self, size: Tensor) -> Tensor:
        """[domain] weights by the number of tasks."""
        root = size.double().rsqrt()
        weight = {"uniform": torch.ones_like(root), "root": root, "exponential": root.exp()}[self.start]
        return weight / weight.sum()

    def weights(self, deficit: Tensor) -> Tensor:
        """[domain]"""
        return torch.softmax(deficit / self.temperature, 0)

    def _domains(self, columns: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """[task] the number of its domain, and [domain] the weights."""
        codes, domain = torch.unique(columns["group.domain.code"], return_inverse=True)
        if not bool(columns["group.domain.seen"].any()):
            return domain, self.first(torch.bincount(domain))
        lacks = columns["group.domain.deficit"].double()
        deficit = torch.full((len(codes),), -torch.inf, dtype=torch.float64).scatter_reduce(0, domain, lacks, "amax")
        return domain, self.weights(deficit)

    def __call__(self, columns: Mapping[str, Tensor]) -> Tensor:
        domain, weight = self._domains(columns)
        visits = columns["group.visits"].double()
        fewest = torch.full_like(weight, torch.inf).scatter_reduce(0, domain, visits, "amin")
        next_ = visits == fewest[domain]
        return weight[domain] * next_ / torch.bincount(domain[next_], minlength=len(weight))[domain]

    def choose(self, columns: Mapping[str, Tensor], count: int) -> Tensor:
        domain, weight = self._domains(columns)
        order = torch.argsort(columns["group.random"], stable=True)
        order = order[torch.argsort(columns["group.visits"][order], stable=True)]
        wanted = places(weight, count, self.least).tolist()
        parts = [repeated(order[domain[order] == d], n) for d, n in enumerate(wanted) if n]
        return torch.cat(parts)
