"""The metrics of an iteration, as plain numbers by name."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from podium.collect.driver import Driver
from podium.core.batch import Batch
from podium.core.columns import Origin, Purpose
from podium.core.gradient import UpdateResult
from podium.core.memory import Memory, keys
from podium.core.part import Metric, Part
from podium.training.non_finite import LARGE

__all__ = ["Metrics"]

SMALL = 1e-6  # advantages up to this are lost in rounding; so is what is learned from rewards that differ by less
LEAST_REWARD = 1e-3  # rewards that differ by less may be meant to be equal


class Metrics:
    """Collects the numbers of one iteration; `line` is what metrics.jsonl holds."""

    def __init__(self) -> None:
        self.values: dict[str, float] = {}
        self.updates: list[tuple[UpdateResult, dict[str, float]]] = []
        self.seconds: dict[str, float] = {}
        self.acted: dict[str, int] = {}  # by part: the elements that it changed
        self.failure = ""  # why a world failed, of the first rollout in which one did
        self.judge_failure = ""  # why a judge failed, the first time it did

    def put(self, name: str, value: float) -> None:
        self.values[name] = value

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Report how many seconds something took."""
        start = time.monotonic()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.monotonic() - start

    @contextmanager
    def sampling(self, driver: Driver) -> Iterator[None]:
        """Report what collecting has cost: seconds, tokens that were sampled, and tokens of contexts and given texts
        that were encoded.

        A prefix that is still in the sampler's prefix cache counts as neither.
        """
        sampled, encoded = driver.spent
        with self.timed("sample"):
            yield
        self.put("tokens.sampled", driver.spent[0] - sampled)
        self.put("tokens.encoded", driver.spent[1] - encoded)

    def count_judged(self, driver: Driver) -> None:
        """The calls of judges in a round of sampling, those of them that were repeated because nothing could be read,
        the judgements that stayed unread, and those that failed."""
        if driver.judged:
            self._sum("judge.calls", driver.judged)
        if driver.judge_retries:
            self._sum("judge.retries", driver.judge_retries)
        if driver.judge_nonsense:
            self._sum("judge.nonsense", driver.judge_nonsense)
        if driver.judge_failures:
            self._sum("judge.failures", sum(driver.judge_failures.values()))
            self.judge_failure = self.judge_failure or next(iter(driver.judge_failures))

    def count_sampled(self, batch: Batch) -> None:
        """What was sampled, whether or not it is kept: nothing is free."""
        lengths = batch.partition("token", "rollout").lengths()
        self._sum("rollouts", len(batch))
        written = batch["token.origin"] != Origin.copied if "token.origin" in batch else batch.action
        self._sum("tokens", int(written.sum()) + _total(batch, "rollout.side_tokens"))
        failures = sum(bool(f) for f in batch["rollout.failure"])
        if failures:
            self._sum("failures", failures)
            self.failure = self.failure or next(f for f in batch["rollout.failure"] if f)
        # Right, and yet nothing was earned: the world's verdict and its rewards disagree. In a game of several agents
        # one may earn what another loses; and a reward that is minus a cost is never above 0.
        earned = batch["rollout.reward"]
        if "turn.agent" in batch:
            for name in (name for name in batch.columns if name.startswith("rollout.reward.")):
                earned = earned.maximum(batch[name])
        contradictions = int(((batch["rollout.correct"] > 0) & (earned <= 0)).sum())
        if contradictions and "rollout.cost" not in batch:
            self._sum("contradictions", contradictions)
        self._episodes(batch)
        for outcome, number in Counter(keys(batch.get("rollout.outcome", ()))).items():  # of programs that were run
            self._sum(f"outcome.{outcome}", number)
        demonstration = torch.as_tensor(batch.get("rollout.demonstration", False), device=batch.device)
        demonstration = demonstration.expand(len(batch))
        trained = (batch["rollout.purpose"] == Purpose.train) & ~demonstration  # which says nothing about the policy
        if "rollout.writer" in batch:  # nor does what another model wrote
            trained = trained & torch.tensor([w == "policy" for w in batch["rollout.writer"]], device=batch.device)
        for name in (name for name in batch.columns if name.startswith("rollout.reward.")):
            self._mean(name.removeprefix("rollout."), batch[name][trained])  # of each agent, or of a reward function
        groups = batch.by("rollout", "group").agg
        flat = groups.max(batch["rollout.reward"]) == groups.min(batch["rollout.reward"])
        for name, values in (
            ("reward", batch["rollout.reward"][trained]),
            ("pass@1", batch["rollout.correct"][trained]),
            ("length", lengths[trained]),
            ("truncated", batch["rollout.truncated"][trained]),
            ("flat_groups", flat),
            ("entropy", entropies(batch)[batch.spread(~demonstration, "rollout", "token")]),
        ):
            self._mean(name, values)

    def _episodes(self, batch: Batch) -> None:
        """Episodes of several turns: their turns, how many ended at a limit, how many actions were invalid."""
        turns = batch.partition("turn", "rollout").lengths()
        if "turn.well_formed" in batch:
            self._mean("well_formed", batch["turn.well_formed"])
        valid = batch.get("turn.valid")
        if isinstance(valid, Tensor):
            self._mean("invalid", ~valid.bool())
        if valid is not None or bool((turns > 1).any()):
            self._mean("turns", turns)
            for reason in ("turns", "context"):
                self._mean(f"stop.{reason}", torch.tensor([stop == reason for stop in batch["rollout.stop"]]))
        if "rollout.idle" in batch:  # episodes in which an agent never acted
            self._mean("idle", torch.tensor([bool(names) for names in batch["rollout.idle"]]))

    def describe(self, batch: Batch) -> None:
        """The batch that is trained: its groups, the spread of its advantages, and the mean of each weight."""
        self.put("groups", batch.size("group"))
        repeated = batch.size("group") - len(set(keys(batch["group.task"])))
        if repeated:  # groups of a task that another group of the batch has too
            self.put("groups.repeated", repeated)
        if "token.advantage" in batch:
            trained = batch.trained("token")
            advantage = batch["token.advantage"][trained]
            if advantage.numel():
                self.put("advantage.std", float(advantage.double().std(unbiased=False)))
                self._count_vanished(batch, batch["token.advantage"].abs().where(trained, 0))
        for name in batch.columns:
            level, _, kind = name.partition(".")
            if kind.startswith("weight."):  # what a part multiplies the loss by, over what is trained
                weight = batch[name][batch.trained(level)]
                if weight.numel():
                    self.put(kind, float(weight.double().mean()))

    def _count_vanished(self, batch: Batch, size: Tensor) -> None:
        """Groups whose rewards differ, but by so little or at such a size that every advantage is 0 to rounding."""
        groups, reward = batch.by("rollout", "group").agg, batch["rollout.reward"]
        spread = groups.max(reward) - groups.min(reward)
        extreme = (spread < SMALL) | (groups.max(reward.abs()) > LARGE)
        zero = batch.partition("token", "group").agg.max(size) <= SMALL
        vanished = int(((spread > 0) & extreme & zero & (groups.count() > 0)).sum())
        if vanished:
            self.put("groups.vanished", vanished)

    def count_merged(self, batch: Batch, rewards: Sequence[float]) -> None:
        """Groups with different rewards that are the same number in the precision of the batch."""
        merged_into: dict[tuple[int, float], list[float]] = {}
        groups, rounded = batch.link("rollout", "group").tolist(), batch["rollout.reward"].tolist()
        for group, number, reward in zip(groups, rounded, rewards, strict=True):
            merged_into.setdefault((group, number), []).append(reward)
        merged = {group for (group, _), exact in merged_into.items() if max(exact) - min(exact) > LEAST_REWARD}
        if merged:
            self._sum("groups.merged", len(merged))

    def count_dropped(self, groups: int, tokens: int) -> None:
        """Groups that were sampled and are not trained, and what they cost."""
        self._sum("groups.dropped", groups)
        self._sum("tokens.dropped", tokens)

    def report(self, batch: Batch, parts: Sequence[Metric]) -> None:
        """The means of what the method's metrics have written, over the elements where it is defined."""
        for name in (name for part in parts for name in part.provides):
            self._mean_of_defined(name.partition(".")[2], batch[name])

    def report_columns(self, batch: Batch, parts: Iterable[Part | Memory]) -> None:
        """The means of the further columns that parts and memories have written; of tokens, those that are trained."""
        for column in dict.fromkeys(column for part in parts for column in part.provides):
            level, _, name = column.partition(".")
            reported = name in ("reward", "advantage") or name.split(".")[0] in ("keep", "weight")
            if reported or level not in ("token", "rollout", "group", "batch") or column not in batch:
                continue
            values = batch[column]
            if isinstance(values, Tensor) and values.is_floating_point() and values.dim() == 1:
                self._mean_of_defined(name, values[batch.trained("token")] if level == "token" else values)

    def _mean_of_defined(self, name: str, values: Tensor) -> None:
        """The mean of the finite values. NaN marks elements without a value; infinite values are counted, so that a
        reader knows that the mean leaves them out."""
        finite = values[values.isfinite()].double()
        if finite.numel():
            self.put(name, float(finite.mean()))
        if infinite := int(values.isinf().sum()):
            self.put(f"not_finite.{name}", infinite)

    def add_update(self, result: UpdateResult, norms: dict[str, float]) -> None:
        """What came of an update, and the norms of its gradients."""
        self.updates.append((result, norms))

    def _sum(self, name: str, value: float) -> None:
        self.values[name] = self.values.get(name, 0) + value

    def _mean(self, name: str, values: Tensor) -> None:
        """A mean over all rounds of sampling, each value once."""
        if values.numel():
            self._sum(f"_{name}.sum", float(values.double().sum()))
            self._sum(f"_{name}.count", values.numel())

    def line(self, iteration: int) -> dict[str, Any]:
        """All of it by name, means over rounds and updates included."""
        line: dict[str, Any] = {"iteration": iteration}
        for name in [n[1:-4] for n in self.values if n.endswith(".sum")]:
            line[name] = self.values[f"_{name}.sum"] / self.values[f"_{name}.count"]
        line |= {n: v for n, v in self.values.items() if not n.startswith("_")}
        collected: dict[str, list[float]] = {}
        for result, norms in self.updates:
            terms = {f"loss.{name}": value for name, value in result.terms.items()}
            values = {"loss": result.loss, **terms, **result.diagnostics, **norms}
            for name, value in values.items():
                collected.setdefault(name, []).append(value)
        for name, numbers in collected.items():
            finite = [v for v in numbers if math.isfinite(v)]
            if finite:
                line[name] = sum(finite) / len(finite)
            if len(finite) < len(numbers):
                line[f"not_finite.{name}"] = len(numbers) - len(finite)
        line["updates"] = len(self.updates)
        if self.failure:
            line["failure"] = self.failure
        if self.judge_failure:
            line["judge.failure"] = self.judge_failure
        line["acted"] = self.acted
        line["seconds"] = {k: round(v, 4) for k, v in self.seconds.items()}
        return line


def _total(batch: Batch, column: str) -> int:
    return int(batch[column].sum()) if column in batch else 0


def entropies(batch: Batch) -> Tensor:
    """[token] The entropy of what each token was drawn from; from a sampler that does not tell it, the token's
    -log p, whose mean is the same in expectation."""
    return batch["token.sampler.entropy"] if "token.sampler.entropy" in batch else -batch["token.sampler.logp"]
