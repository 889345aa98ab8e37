"""How far each domain's recent rewards lag behind a target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from podium.core.batch import Batch
from podium.core.errors import one_of, within
from podium.core.memory import Memory, State
from podium.core.part import Columns
from podium.core.schedule import Count
from podium.parts.select.domains import REFERENCE

__all__ = ["DomainRewards"]


Sums = Mapping[str, tuple[float, float]]  # by domain: the sum of its rewards in a batch, and their number


class DomainRewards(Memory):
    """The deficit max(0, target − r̄) of each domain, r̄ its recent mean reward (`group.domain.deficit`).

    - variant = "buffer": r̄ is over the last `size` batches, rewards decayed by age, 1/(age + 1), 0.5^age or 1; the
      target is `base` times the mean of these factors over a full buffer;
    - variant = "ewma": r̄ = alpha · previous r̄ + (1 − alpha) · mean of the last batch (that mean alone if the previous
      r̄ is 0); the target is `base`.

    A domain that was not seen yet (`group.domain.seen`) lacks the whole target.
    """

    reference = REFERENCE
    sees_dropped = True
    keyed_by = "domain"
    variant: str = "buffer"  # buffer or ewma
    size: int = 4  # batches, ≥ 1
    decay: str = "harmonic"  # by age, of the rewards in the buffer: harmonic, geometric or none
    base: float = 1.0  # the reward that counts as mastery, in (0, 1]
    alpha: float = 0.5  # smoothing of ewma, in [0, 1]
    every: Count = 8  # iterations between two updates of the deficits, ≥ 1
    forget: bool = False  # whether the buffer is emptied after every iteration, as released

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
        """The factor on rewards of this age in batches."""
        return {"harmonic": 1 / (age + 1), "geometric": 0.5**age, "none": 1.0}[self.decay]

    def target(self, held: int) -> float:
        """The mean decayed reward of a mastered domain, with `held` batches in the buffer."""
        if self.variant == "ewma":
            return self.base
        ages = held if self.decay == "none" else self.size
        return self.base * sum(self.factor(age) for age in range(ages)) / self.size

    def means(self, buffer: Sequence[Sums], history: Mapping[str, float]) -> dict[str, float]:
        """r̄ of every domain of the buffer, whose oldest batch comes first."""
        if self.variant == "ewma":
            newest = {d: total / count for d, (total, count) in buffer[-1].items()}
            return {
                d: self.alpha * history[d] + (1 - self.alpha) * x if history.get(d) else x for d, x in newest.items()
            }
        total: dict[str, list[float]] = {}
        ages = list(enumerate(reversed(buffer)))
        # As released: newest batch first if rewards decay, oldest first if not. Tied domains keep the order they are
        # met in.
        for age, batch in reversed(ages) if self.decay == "none" else ages:
            for domain, (rewards, count) in batch.items():
                sums = total.setdefault(domain, [0.0, 0.0])
                sums[0] += self.factor(age) * rewards
                sums[1] += count
        return {domain: rewards / count for domain, (rewards, count) in total.items()}

    def deficits(
        self, buffer: Sequence[Sums], history: Mapping[str, float]
    ) -> tuple[dict[str, float], dict[str, float]]:
        """The deficit of every domain in the buffer, and its r̄."""
        means = self.means(buffer, history)
        return {d: max(0.0, self.target(len(buffer)) - mean) for d, mean in means.items()}, means

    def recall(self, state: State, tasks: Sequence[Any]) -> Columns:
        unseen = self.target(max(len(state["buffer"]), 1))
        deficit = [state["deficit"].get(domain, unseen) for domain in tasks]
        return {
            "group.domain.deficit": torch.tensor(deficit, dtype=torch.float64),
            "group.domain.seen": torch.tensor([domain in state["deficit"] for domain in tasks], dtype=torch.bool),
        }

    def observe(self, state: State, batch: Batch) -> State:
        counted, correct = batch.by("rollout").enters(), batch["rollout.correct"].double().tolist()
        enters = [True] * len(batch) if counted is None else counted.tolist()
        seen: dict[str, tuple[float, float]] = {}
        for domain, right, counts in sorted(zip(batch["rollout.domain"], correct, enters, strict=True)):
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
