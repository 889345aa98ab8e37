"""What an iteration was like, as plain numbers by plain names."""

from __future__ import annotations

import time
from typing import Any

from torch import Tensor

from podium.core.batch import Batch, Purpose
from podium.objective.gradient import Step

__all__ = ["Metrics"]


class Metrics:
    """Collects the numbers of one iteration; `line` is what metrics.jsonl holds."""

    def __init__(self) -> None:
        self.values: dict[str, float] = {}
        self.steps: list[tuple[Step, dict[str, float]]] = []
        self.seconds: dict[str, float] = {}

    def put(self, name: str, value: float) -> None:
        self.values[name] = value

    def time(self, name: str, begun: float) -> None:
        self.seconds[name] = self.seconds.get(name, 0.0) + time.monotonic() - begun

    def sampled(self, batch: Batch) -> None:
        """What was sampled, whether or not it is kept: nothing is free."""
        lengths = batch.partition("token", "rollout").lengths()
        self._sum("rollouts", len(batch))
        self._sum("tokens", int(lengths.sum()))
        failures = sum(bool(f) for f in batch["rollout.failure"])
        if failures:
            self._sum("failures", failures)
        trained = batch["rollout.purpose"] == Purpose.train
        groups = batch.by("rollout", "group").agg
        flat = groups.max(batch["rollout.reward"]) == groups.min(batch["rollout.reward"])
        for name, values in (
            ("reward", batch["rollout.reward"][trained]),
            ("pass@1", batch["rollout.correct"][trained]),
            ("length", lengths[trained]),
            ("truncated", batch["rollout.truncated"][trained]),
            ("flat_groups", flat),
            ("entropy", batch["token.sampler.entropy"]),
        ):
            self._mean(name, values)

    def describe(self, batch: Batch) -> None:
        """What is trained."""
        self.put("groups", batch.size("group"))
        if "token.advantage" in batch:
            trained = batch.trained("token")
            advantage = batch["token.advantage"][trained]
            if advantage.numel():
                self.put("advantage.std", float(advantage.double().std(unbiased=False)))

    def add(self, step: Step, norms: dict[str, float]) -> None:
        self.steps.append((step, norms))

    def _sum(self, name: str, value: float) -> None:
        self.values[name] = self.values.get(name, 0) + value

    def _mean(self, name: str, values: Tensor) -> None:
        """A mean over all rounds of sampling, each value once."""
        if values.numel():
            self._sum(f"_{name}.sum", float(values.double().sum()))
            self._sum(f"_{name}.count", values.numel())

    def line(self, iteration: int) -> dict[str, Any]:
        line: dict[str, Any] = {"iteration": iteration}
        for name in [n[1:-4] for n in self.values if n.endswith(".sum")]:
            line[name] = self.values[f"_{name}.sum"] / self.values[f"_{name}.count"]
        line |= {n: v for n, v in self.values.items() if not n.startswith("_")}
        collected: dict[str, list[float]] = {}
        for step, norms in self.steps:
            values = {"loss": step.loss, **{f"loss.{n}": v for n, v in step.terms.items()}, **step.diagnostics, **norms}
            for name, value in values.items():
                collected.setdefault(name, []).append(value)
        line |= {name: sum(v) / len(v) for name, v in collected.items()}
        line["updates"] = len(self.steps)
        line["seconds"] = {k: round(v, 4) for k, v in self.seconds.items()}
        return line
