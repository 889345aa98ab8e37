"""Recorded batches, replayed: what any method would have done with the rollouts of a run."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from podium.analysis.recorded_batch import computed_columns, recorded_batch
from podium.analysis.token_effects import NOW, OLD, CreditTrail, Effects, credit_of, summarise, term_pushes, term_slopes
from podium.core.activity import label
from podium.core.batch import Batch
from podium.core.errors import PodiumError
from podium.core.gradient import now_signals
from podium.core.part import Metric
from podium.core.signal import Signal
from podium.method import Method
from podium.methods import get
from podium.store.retention import examples_kept, kept_text
from podium.store.run_directory import RunDirectory
from podium.store.sound_checkpoint import newest_sound
from podium.store.tables import read_rows, rollout_files
from podium.training.build import build_run
from podium.training.config import Config
from podium.training.live_parts import fixed_shapes, live_parts, signals_before_updates
from podium.training.run import Run
from podium.training.stored_config import stored_config

__all__ = ["RecordedBatches", "ReplayedMethod", "open_replay", "replay"]

AT = ("sampled", "checkpoint")
ROW = "token.row"  # the place of a token in the whole batch


@dataclass
class ReplayedMethod:
    """A method with its models, at the weights of the run's newest checkpoint."""

    name: str
    run: Run
    moved: bool = False  # whether the current policy is that of the checkpoint; else the one that sampled, as recorded

    def credited(self, sampled: Batch) -> tuple[Method, Batch, CreditTrail]:
        """The batch with all columns that the method writes before its updates, and what each part added."""
        run, trail = self.run, CreditTrail()
        method = run.begin()
        batch = run.memories.of_batch(method, sampled)
        first = (*method.annotate, *method.reward, *method.keep)
        for part in (*first, *([method.advantage] if method.advantage else []), *fixed_shapes(method)):
            before, batch = batch, run.apply([part], batch)
            trail.step(label(part), before, batch)
            if part in method.keep and "group.keep" in batch and bool(batch["group.keep"].any()):
                batch = batch.take("group", batch["group.keep"]).without(["group.keep"])
        return method, batch, trail

    def effects(self, sampled: Batch) -> tuple[Effects, Batch]:
        """What the method does to each token, with the whole batch as one update; and the batch that it trains."""
        effects, batch, _ = self._evaluated(sampled, grad=False)
        return effects, batch

    def gradient(self, sampled: Batch) -> tuple[Effects, Batch, Tensor]:
        """The same, and the gradient of the objective with respect to the policy's weights, as one vector."""
        effects, batch, slopes = self._evaluated(sampled, grad=True)
        policy, trainer = self.run.policy, self.run.trainer
        summed: dict[Signal, Tensor] = {}
        for signal, slope in (item for by_signal in slopes.values() for item in by_signal.items()):
            summed[signal] = summed[signal] + slope if signal in summed else slope
        batch = batch.with_columns({ROW: torch.arange(batch.size("token"), device=batch.device)})
        for rows in trainer.split(batch):
            micro = batch.take("rollout", rows)
            results = trainer.signals(micro, list(summed), grad=True)
            carried = [(summed[s][micro[ROW]] * x).sum() for s, x in results.items() if x.requires_grad]
            if carried:
                torch.stack(carried).sum().backward()  # type: ignore[no-untyped-call]
        trained = [p for p in policy.parameters() if p.requires_grad]
        parts = [(torch.zeros_like(p) if p.grad is None else p.grad).reshape(-1) for p in trained]
        for p in trained:
            p.grad = None
        return effects, batch, torch.cat(parts)

    def _evaluated(self, sampled: Batch, grad: bool) -> tuple[Effects, Batch, dict[str, dict[Signal, Tensor]]]:
        method, batch, trail = self.credited(sampled)
        live, trainer = live_parts(method), self.run.trainer
        terms = [term for term in method.objective if term.trains == "policy"]
        if grad and any(s.level != "token" for s in now_signals(terms)):
            raise PodiumError("its objective reads more than tokens, so that its gradient is not compared")
        batch = trainer.provide(batch, signals_before_updates(method, live))
        known = not self.moved and OLD in batch  # the policy that sampled is the current one: nothing to compute
        batch = batch.with_columns({NOW: batch[OLD]}) if known else batch.without([NOW])
        batch = trainer.provide(batch, [NOW, *now_signals([*live, *terms])])
        for signal in (NOW, *(s for s in now_signals([*live, *terms]) if not s.role)):
            old = Signal(signal.name, of="old", level=signal.level, **dict(signal.settings))
            batch = batch if old in batch else batch.with_columns({old: batch[signal]})
        if not self.moved:
            batch = batch.with_columns({NOW: batch[OLD]})
        for part in (part for part in live if not isinstance(part, Metric)):
            before, batch = batch, batch.with_columns(part(batch))
            trail.step(label(part), before, batch)
        now, old = batch[NOW].double().cpu(), batch[OLD].double().cpu()
        holding = frozenset(label(term) for term in terms if term.holds_to_reference)
        slopes, trained = term_slopes(terms, batch), batch.trained("token").cpu()
        pushes = term_pushes(slopes, batch)
        return Effects(credit_of(batch), trail, pushes, now, (now - old).exp(), trained, holding), batch, slopes


@dataclass
class RecordedBatches:
    """The recorded batches of a run, and the methods that are tried on them."""

    config: Config
    files: Mapping[int, Path]  # of whole iterations
    methods: Sequence[ReplayedMethod]

    def rows(self, iteration: int) -> list[dict[str, Any]]:
        return list(read_rows(self.files[iteration]))

    def batch(self, rows: Sequence[Mapping[str, Any]]) -> Batch:
        """What was sampled in an iteration, before the run's method had its say."""
        method = self.config.method
        provided = {
            column
            for leaf in method.leaves()
            for parts in (leaf.parts(), leaf.memories)
            for part in parts
            if part is not leaf.rollout
            for column in part.provides
        }
        computed = computed_columns(rows, provided, {role.name for leaf in method.leaves() for role in leaf.roles})
        rewarded = any(leaf.reward for leaf in method.leaves())
        plain = [{**row, "reward": float(sum(row["turn.reward"]))} for row in rows] if rewarded else rows
        return recorded_batch(plain, computed, seed=self.config.seed).to(self.methods[0].run.policy.device)


@contextmanager
def open_replay(
    path: Path | str, methods: Sequence[str], *, at: str = "sampled", trust: bool = False
) -> Iterator[RecordedBatches]:
    """Load a run's newest checkpoint once for each method; without methods, for that of the run.

    `at` says which policy is the current one: that which `sampled` the rollouts, by its recorded log-probabilities, so
    that every importance ratio is 1; or that of the `checkpoint`, which has moved since.
    """
    if at not in AT:
        raise PodiumError(f"The current policy is that which sampled, or that of the checkpoint, not {at!r}.")
    directory = RunDirectory(path)
    config = stored_config(directory, trust=trust).config
    files = rollout_files(directory.path)
    whole = {number: file for number, file in files.items() if examples_kept(file) is None}
    if not whole:
        raise PodiumError(f"{path} has no whole rollouts to replay: it keeps {kept_text(files)}.")
    checkpoints = directory.checkpoints()
    named = {name: get(name) for name in methods} or {config.method.name: config.method}
    with ExitStack() as stack:
        opened = []
        for name, method in named.items():
            run = stack.enter_context(closing(_opened(config, name, method)))
            if checkpoints:
                newest_sound(checkpoints, partial(_load_policy, run))
            opened.append(ReplayedMethod(name, run, moved=at == "checkpoint"))
        yield RecordedBatches(config, whole, opened)


def _load_policy(run: Run, checkpoint: Path) -> None:
    run.policy.load(checkpoint / "policy")


def _opened(config: Config, name: str, method: Method) -> Run:
    try:
        return build_run(config.replace(method=method.main()))
    except PodiumError as problem:
        raise PodiumError(f"{name} cannot be replayed on the rollouts of {config.method.name}: {problem}") from problem


def replay(
    path: Path | str, methods: Sequence[str], *, batches: int = 50, at: str = "sampled", trust: bool = False
) -> dict[str, Any]:
    """Run methods over the newest recorded batches of a run.

    Returns the figures of each method, means over batches, and the cosine between the gradients of each two. How the
    log-probability of a token depends on the weights is that of the newest checkpoint.
    """
    figures: dict[str, list[dict[str, float]]] = {}
    cosines: dict[tuple[str, str], list[float]] = {}
    with open_replay(path, methods, at=at, trust=trust) as opened:
        numbers = list(opened.files)[-batches:]
        for number in numbers:
            sampled = opened.batch(opened.rows(number))
            gradients: dict[str, Tensor] = {}
            for each in opened.methods:
                try:
                    effects, trained, gradients[each.name] = each.gradient(sampled)
                except PodiumError as problem:
                    raise PodiumError(f"{each.name} cannot be replayed on iteration {number}: {problem}") from problem
                norm = float(gradients[each.name].norm())
                figures.setdefault(each.name, []).append({**summarise(effects, sampled, trained), "norm": norm})
            for one, other in combinations(gradients, 2):
                cosines.setdefault((one, other), []).append(_cosine(gradients[one], gradients[other]))
    return {
        "run": str(path),
        "iterations": numbers,
        "at": at,
        "methods": {name: _means(rows) for name, rows in figures.items()},
        "cosines": [{"methods": list(pair), "mean": _mean(x), "values": x} for pair, x in cosines.items()],
    }


def _cosine(one: Tensor, other: Tensor) -> float:
    """NaN where one of the two is 0: a direction that does not exist is like no other."""
    norms = float(one.double().norm() * other.double().norm())
    return float(one.double() @ other.double()) / norms if norms else float("nan")


def _mean(values: Sequence[float]) -> float | None:
    """The mean of the defined values; None: there are none."""
    defined = [value for value in values if value == value]
    return statistics.fmean(defined) if defined else None


def _means(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {name: statistics.fmean(row[name] for row in rows) for name in rows[0]}
