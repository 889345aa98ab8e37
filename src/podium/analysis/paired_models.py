"""Two models on the same tasks: what one solves and the other does not, and how that depends on the tries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from podium.analysis.support import Support, answer_entropy, detectability, support_change
from podium.core.build import Rollout
from podium.core.errors import PodiumError
from podium.evaluation.passk import pass_curve
from podium.evaluation.resample import Array, Measure, estimate

__all__ = ["SHARES", "PairedComparison", "Tally", "crossings", "kinds", "shares", "tally"]

SHARES = ("retention", "discovery", "dynamic_score", "net_change")


@dataclass(frozen=True)
class Tally:
    """What a model did on some tasks; every list has one entry per task."""

    tasks: Sequence[str]
    samples: int  # answers to each task
    correct: Sequence[int]  # how many were right
    solutions: Sequence[Mapping[str, int]]  # the different right answers, and how often each was found
    token_entropy: Sequence[float]  # mean over the tokens, nats
    answer_entropy: Sequence[float]  # of the answers, nats
    length: Sequence[float]  # tokens

    @cached_property
    def curves(self) -> Array:
        """[task, k − 1] pass@k for every k up to the number of samples."""
        return np.stack([pass_curve(self.samples, c) for c in self.correct])

    def passed(self, k: int) -> Array:
        """[task] pass@k."""
        if not 1 <= k <= self.samples:
            raise PodiumError(f"pass@{k} needs at least {k} samples a task, not {self.samples}.")
        return self.curves[:, k - 1]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def tally(groups: Sequence[Sequence[Rollout]]) -> Tally:
    """Count what came of equally many rollouts of each task."""
    right = [[r for r in group if r.columns["correct"]] for group in groups]
    entropies = [[h for r in g for t in r.turns for h in t.tokens.get("sampler.entropy", ())] for g in groups]
    return Tally(
        tasks=[str(group[0].task) for group in groups],
        samples=len(groups[0]),
        correct=[len(found) for found in right],
        solutions=[dict(sorted(Counter(str(r.columns["answer"]) for r in found).items())) for found in right],
        token_entropy=[float(np.mean(h)) if h else 0.0 for h in entropies],
        answer_entropy=[answer_entropy([str(r.columns["answer"]) for r in group]) for group in groups],
        length=[float(np.mean([sum(len(t.ids) for t in r.turns) for r in group])) for group in groups],
    )


def kinds(base: Tally, trained: Tally, *, solutions: bool = False) -> Array:
    """[task, 4] whether a task is preserved, expanded, shrunk or out of support; or how many of its solutions are."""
    rows = []
    for number in range(len(base.tasks)):
        before, after = [base.correct[number]], [trained.correct[number]]
        if solutions:
            answers = sorted({*base.solutions[number], *trained.solutions[number]})
            before, after = ([m.solutions[number].get(a, 0) for a in answers] for m in (base, trained))
        change = support_change(before, after)
        rows.append([change.preserved, change.expanded, change.shrunk, change.out_of_support])
    return np.array(rows, dtype=float)


def shares(name: str, sums: Array) -> Array:
    """[draw] a share of `Support` from sums of its four counts."""
    return np.array([getattr(Support(*row), name) for row in sums])


def crossings(base: Array, trained: Array) -> list[tuple[int, str]]:
    """Where two curves [k − 1] change places: each k from which on the other is the higher one, and which that is."""
    crossings_by_k: list[tuple[int, str]] = []
    before = 0.0
    for k, side in enumerate(np.sign((trained - base).round(12)), start=1):
        if side not in (0.0, before):
            crossings_by_k.append((k, "trained" if side > 0 else "base"))
            before = side
    return crossings_by_k


@dataclass(frozen=True)
class PairedComparison:
    """A trained model beside the one that it began as: the same prompts, the same random streams."""

    base: Tally
    trained: Tally
    ks: Sequence[int] = (1,)  # the k of pass@k that are told

    def __post_init__(self) -> None:
        if self.base.tasks != self.trained.tasks or self.base.samples != self.trained.samples:
            raise PodiumError("Two models can be contrasted on the same tasks with the same number of samples only.")

    def support(self, *, solutions: bool = False) -> Support:
        """Over tasks, or over the different right answers that either model found."""
        return Support(*map(int, kinds(self.base, self.trained, solutions=solutions).sum(0)))

    def shares(self, *, solutions: bool = False) -> dict[str, Measure]:
        """Retention SRR, discovery NDR, dynamic score SDS and net change NSCR, with intervals over tasks."""
        counts = kinds(self.base, self.trained, solutions=solutions)[None]
        return {name: estimate(counts, lambda sums, name=name: shares(name, sums)) for name in SHARES}  # type: ignore[misc]

    def measures(self) -> dict[str, tuple[Measure, Measure, Measure]]:
        """For the base, the trained model, and the second minus the first task by task."""
        sides = (self.base, self.trained)
        per_task = {f"pass@{k}": [side.passed(k) for side in sides] for k in self.ks}
        for name in ("token_entropy", "answer_entropy", "length"):
            per_task[name.replace("_", " ")] = [np.array(getattr(side, name)) for side in sides]
        per_task["distinct"] = [np.array([float(len(s)) for s in side.solutions]) for side in sides]
        by_name = {}
        for name, (base, trained) in per_task.items():
            values = [np.stack([x, np.ones(len(x))], axis=-1)[None] for x in (base, trained, trained - base)]
            bounds = (0.0, 1.0 if name.startswith("pass@") else np.inf)
            by_name[name] = estimate(values[0], bounds=bounds), estimate(values[1], bounds=bounds), estimate(values[2])
        return by_name

    @property
    def crossings(self) -> list[tuple[int, str]]:
        """Each k from which on another model's pass@k is the higher one, and that model: base or trained."""
        return crossings(self.base.curves.mean(0), self.trained.curves.mean(0))

    @property
    def detectability(self) -> float:
        """Solutions rarer than this may have been missed (with probability 0.05 or more)."""
        return detectability(self.base.samples)

    def tasks(self) -> list[dict[str, Any]]:
        """For each task what became of it, and the right answers of either model with how often each was found."""
        names = ("preserved", "expanded", "shrunk", "out of support")
        change = kinds(self.base, self.trained).argmax(1)
        rows = zip(self.base.tasks, change, self.base.solutions, self.trained.solutions, strict=True)
        return [
            {"task": key, "change": names[kind], "base": dict(before), "trained": dict(after)}
            for key, kind, before, after in rows
        ]

    def as_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        measured = self.measures()
        sides = {
            side: {name: row[place].as_dict() for name, row in measured.items()}
            for place, side in enumerate(("base", "trained", "difference"))
        }
        supports = {
            name: asdict(self.support(solutions=way))
            | {share: m.as_dict() for share, m in self.shares(solutions=way).items()}
            for name, way in (("support", False), ("solutions", True))
        }
        return {
            "samples": self.base.samples,
            "detectability": self.detectability,
            **sides,
            **supports,
            "crossings": [{"k": k, "above": side} for k, side in self.crossings],
            "tasks": self.tasks(),
        }
