"""What is known of each domain as an arm of a bandit: its mean reward, and its learning curve."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from podium.core.batch import Batch
from podium.core.errors import one_of, within
from podium.core.memory import Memory, State
from podium.core.part import Columns
from podium.core.schedule import Number
from podium.tables.allocation import fit_power_law

__all__ = ["ArmRewards", "LearningCurves"]

POINTS = 16  # that a learning curve is fitted to


def _by_domain(batch: Batch) -> Mapping[str, list[float]]:
    """The success rates of the groups of each domain."""
    counted = batch.by("rollout").enters()
    enters = [True] * len(batch) if counted is None else counted.tolist()
    correct, group = batch["rollout.correct"].double().tolist(), batch.partition("rollout", "group").index.tolist()
    found: dict[tuple[str, int], list[float]] = {}
    for domain, number, right, counts in zip(batch["rollout.domain"], group, correct, enters, strict=True):
        if counts:
            found.setdefault((domain, number), []).append(right)
    rates: dict[str, list[float]] = {}
    for (domain, _), rights in found.items():
        rates.setdefault(domain, []).append(sum(sorted(rights)) / len(rights))
    return {domain: sorted(rates[domain]) for domain in sorted(rates)}


class ArmRewards(Memory):
    """The mean reward of each domain, as an arm of a bandit: over groups, with a weight that decays by iteration.

    The reward of a group is how much it can teach, 4 p (1 − p) of its success rate p (`variance`), or p itself
    (`success`). A domain that was not seen has the value 1, so that it is tried. A low `decay` is a short memory, with
    which choices swing from one iteration to the next.
    """

    reference = "SquareCB, https://arxiv.org/abs/2002.04926; Contextual Bandits in Payment Processing (Adyen)"
    sees_dropped = True
    keyed_by = "domain"
    of: str = "variance"  # variance or success
    decay: Number = 0.8  # of the weight of earlier groups with every iteration, in [0, 1]; 0: the last one alone

    needs = ("rollout.domain", "rollout.correct")
    provides = ("group.arm.value", "group.arm.samples")

    def __post_init__(self) -> None:
        one_of(self, "of", ("variance", "success"))
        within(self, "decay", 0, 1)

    def initial(self) -> State:
        return {"arms": {}}

    def recall(self, state: State, tasks: Sequence[Any]) -> Columns:
        rows = [state["arms"].get(domain, (1.0, 0.0)) for domain in tasks]
        total, weight = torch.tensor(rows, dtype=torch.float64).reshape(-1, 2).unbind(1)
        return {
            "group.arm.value": torch.where(weight > 0, total / weight.clamp(min=1e-12), 1.0),
            "group.arm.samples": weight,
        }

    def observe(self, state: State, batch: Batch) -> State:
        arms = {d: (self.decay * total, self.decay * weight) for d, (total, weight) in state["arms"].items()}
        for domain, rates in _by_domain(batch).items():
            earned = rates if self.of == "success" else [4 * p * (1 - p) for p in rates]
            total, weight = arms.get(domain, (0.0, 0.0))
            arms[domain] = (total + sum(earned), weight + len(earned))
        return {"arms": arms}

    def scalars(self, state: State) -> dict[str, float]:
        return {f"arm.value.{d}": total / weight for d, (total, weight) in sorted(state["arms"].items()) if weight > 0}


class LearningCurves(Memory):
    """The failure rate of each domain over the number of its groups, as a power law e(n) = floor + scale · n^−exponent.

    Every iteration adds a point per domain; the law is fitted to the last sixteen. Until a domain has two, its failure
    rate is taken to fall as 1/√n.
    """

    reference = (
        "Adaptive Sampling Strategies to Construct Equitable Training Datasets, https://arxiv.org/abs/2202.01327"
    )
    sees_dropped = True
    keyed_by = "domain"

    needs = ("rollout.domain", "rollout.correct")
    provides = ("group.curve.floor", "group.curve.scale", "group.curve.exponent", "group.curve.groups")

    def initial(self) -> State:
        return {"curves": {}}

    def recall(self, state: State, tasks: Sequence[Any]) -> Columns:
        laws = {domain: self._law(points) for domain, points in state["curves"].items()}
        rows = [laws.get(domain, (0.0, 1.0, 0.5, 0.0)) for domain in tasks]
        columns = torch.tensor(rows, dtype=torch.float64).reshape(-1, 4).unbind(1)
        return dict(zip(self.provides, columns, strict=True))

    @staticmethod
    def _law(points: Sequence[tuple[float, float]]) -> tuple[float, float, float, float]:
        sizes, errors = [n for n, _ in points], [e for _, e in points]
        if len(points) < 2:
            return 0.0, errors[0] * sizes[0] ** 0.5, 0.5, sizes[-1]
        law = fit_power_law(sizes, errors)
        return law.floor, law.scale, law.exponent, sizes[-1]

    def observe(self, state: State, batch: Batch) -> State:
        curves = dict(state["curves"])
        for domain, rates in _by_domain(batch).items():
            before = curves.get(domain, [])
            groups = (before[-1][0] if before else 0.0) + len(rates)
            curves[domain] = [*before, (groups, 1 - sum(rates) / len(rates))][-POINTS:]
        return {"curves": curves}
