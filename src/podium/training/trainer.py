"""The trainer: learners with their optimisers, and one exact optimiser step at a time. It knows no method by name."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any, TypeVar

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import PodiumError
from podium.core.gradient import Forward, UpdateResult, backward
from podium.core.part import Metric, Shape
from podium.core.ranks import ALONE, Ranks
from podium.core.signal import Signal
from podium.core.term import Term
from podium.policy import Critic, Policy
from podium.policy.forward.pack import common_prefix
from podium.policy.head.passage import passage_of, passage_signal
from podium.policy.model.device import out_of_memory
from podium.training.learner import Learner
from podium.training.non_finite import cause

__all__ = ["PastSelves", "Trainer"]

OLD, NOW = Signal("logp", of="old"), Signal("logp", of="now")
T = TypeVar("T")


@dataclass
class PastSelves:
    """A role that is refreshed from the policy: its copies, the newest first, of which the first `filled` differ."""

    copies: tuple[str, ...]
    every: int | str  # iterations, or "phase"
    filled: int = 1


@dataclass
class Trainer:
    """Computes signals by role, and takes optimiser steps."""

    learners: Mapping[str, Learner]  # by role: policy, critic, …
    roles: Mapping[str, Policy]  # the models that are not trained: ref, …
    temperature: float = 1.0  # of sampling: log-probabilities are those of the distribution sampled from
    micro_tokens: int = 16384
    planned_updates: int = 0
    rate_scale: float = 1.0  # of the learning rates in the current phase
    decays: Mapping[str, float] = field(default_factory=dict)  # by role that is a moving average
    followed: Mapping[str, str] = field(default_factory=dict)  # the learner that it averages, if not the policy
    contexts: Mapping[str, str] = field(default_factory=dict)  # by role, the column of contexts that it reads
    renewed: tuple[str, ...] = ()  # roles that are the policy as it was when the phase began
    pasts: Mapping[str, PastSelves] = field(default_factory=dict)  # roles that are refreshed from the policy
    ranks: Ranks = ALONE  # the processes that share the work of this trainer

    @property
    def moving(self) -> tuple[str, ...]:
        """The roles that are not trained, and yet change."""
        return (*self.decays, *self.renewed, *(name for past in self.pasts.values() for name in past.copies))

    def begin_phase(self, fresh: bool = False) -> None:
        """Renew the roles that are the policy at the beginning of a phase, and the optimisers where it says so."""
        for learner in self.learners.values() if fresh else ():
            learner.refresh()
        for name in self.renewed:
            self.roles[name].average(self.learners["policy"].policy, 0.0)
        self._refresh(past for past in self.pasts.values() if past.every == "phase")

    def end_iteration(self, done: int) -> None:
        """Refresh the roles that are due after so many iterations."""
        self._refresh(p for p in self.pasts.values() if isinstance(p.every, int) and done % p.every == 0)

    def _refresh(self, due: Iterable[PastSelves]) -> None:
        """Let the newest copy be the policy as it is now, and each older one the next newer."""
        for past in due:
            models = [self.learners["policy"].policy, *(self.roles[name] for name in past.copies)]
            for newer, older in reversed(list(pairwise(models))):
                older.average(newer, 0.0)
            past.filled = min(past.filled + 1, len(past.copies))

    def signals(
        self, batch: Batch, wanted: Sequence[Signal], *, grad: bool = False, learner: str = "policy"
    ) -> dict[Signal, Tensor]:
        """Compute signals of a batch, each by the model that its `of` names; `now` is the learner being trained."""
        computed: dict[Signal, Tensor] = {}
        if others := [s for s in wanted if s.role]:
            asked = {s: _asked_of_role(s) for s in others}
            with torch.no_grad():
                found = self.signals(batch, list(asked.values()))
            computed |= {s: found[asked[s]] for s in others}
            wanted = [s for s in wanted if not s.role]
        plain = [s for s in wanted if not _columns(s) and passage_of(s) is None]
        for (model, context), signals in self._by_model(plain, learner).items():
            rows = batch if context is None else batch.with_columns({"turn.train_context": batch[context]})
            computed |= model.signals(rows, signals, temperature=self.temperature, grad=grad)
        for signal in (s for s in wanted if passage_of(s) is not None):
            computed[signal] = passage_signal(self._model(signal, learner), batch, signal, self.temperature, grad)
        for signal in (s for s in wanted if _columns(s)):
            computed[signal] = self._by_value(batch, signal)
        return computed

    def _by_value(self, batch: Batch, signal: Signal) -> Tensor:
        """[token] a signal with a setting that is a column of rollouts: those of equal value are computed together."""
        cells, names = batch.partition("rollout", "batch"), _columns(signal)
        for name in names.values():
            cells = cells.refine(batch[name])
        whole = torch.zeros(batch.size("token"), dtype=batch.dtype, device=batch.device)
        for cell in range(cells.cells):
            chosen = cells.index == cell
            rows = batch.take("rollout", chosen)
            settings = dict(signal.settings) | {k: float(rows[name][0]) for k, name in names.items()}
            plain = Signal(signal.name, of=signal.of, **settings)
            inside = batch.spread(chosen, "rollout", "token")
            whole = whole.masked_scatter(inside, self.signals(rows, [plain])[plain])
        return whole

    def _by_model(self, wanted: Sequence[Signal], learner: str) -> dict[tuple[Policy, str | None], list[Signal]]:
        """The signals by the model that computes them and the column of contexts that it reads."""
        grouped: dict[tuple[Policy, str | None], list[Signal]] = {}
        for signal in wanted:
            key = (self._model(signal, learner), self.contexts.get(signal.of))
            grouped.setdefault(key, []).append(signal)
        return grouped

    def _model(self, signal: Signal, learner: str) -> Policy:
        if signal.of == "now":
            return self.learners[learner].policy
        if signal.of in self.roles:
            return self.roles[signal.of]
        if signal.of in self.learners:
            return self.learners[signal.of].policy
        if signal.of not in ("old", "sampler"):
            raise PodiumError(f"{signal!r} asks for the role {signal.of!r}, which the method does not have.")
        critics = [x.policy for x in self.learners.values() if isinstance(x.policy, Critic)]
        return critics[0] if signal.name == "value" and critics else self.learners["policy"].policy

    def provide(self, batch: Batch, wanted: Sequence[Signal]) -> Batch:
        """The batch with these signals computed without a graph, where it does not have them."""
        missing = [s for s in wanted if s not in batch]
        if not missing:
            return batch
        # A signal at tokens that another one chooses, such as a teacher's view of the student's likeliest ones, waits.
        chosen_by = {s.column for s in missing}
        waiting = [s for s in missing if any(v in chosen_by for _, v in s.settings)]
        if waiting:
            return self.provide(self.provide(batch, [s for s in missing if s not in waiting]), waiting)

        def scored(splits: Sequence[Tensor]) -> dict[Signal, Tensor]:
            parts = self.ranks.spread(splits, lambda chosen: self.signals(batch.take("rollout", chosen), missing))
            # The micro-batches are consecutive rollouts, so that their values join in the order of the batch.
            return {s: torch.cat([values[s] for values in parts]).to(batch.device) for s in missing}

        with torch.no_grad():
            return batch.with_columns(self._fitting(batch, scored))

    def current(self, batch: Batch) -> Tensor:
        """[token] the log-probabilities under the policy as it is now."""
        scored: Tensor = self.provide(batch.without([NOW]), [NOW])[NOW]
        return scored

    def split(self, batch: Batch) -> list[Tensor]:
        """Consecutive rollouts in micro-batches of at most `micro_tokens` tokens, contexts included.

        A prefix that a context shares with the one before it is encoded once, and counted once in a micro-batch.
        """
        sizes = batch.partition("token", "rollout").lengths().tolist()
        first_shared: dict[int, int] = {}  # by rollout, the prefix that its first context shares with the one before
        previous: tuple[int, ...] = ()
        for rollout, context in zip(batch.link("turn", "rollout").tolist(), batch["turn.train_context"], strict=True):
            shared = common_prefix(previous, context)
            first_shared.setdefault(rollout, shared)
            sizes[rollout] += len(context) - shared
            previous = context

        def parts_of(limit: float) -> list[list[int]]:
            parts: list[list[int]] = []
            total = math.inf
            for rollout, size in enumerate(sizes):
                total += size
                if total > limit:
                    parts.append([])
                    total = size + first_shared.get(rollout, 0)
                parts[-1].append(rollout)
            return parts

        # Micro-batches of nearly equal size: a small one at the end would cost as many operations as the others.
        count, largest = -(-sum(sizes) // self.micro_tokens), max(sizes, default=0)
        parts = parts_of(min(self.micro_tokens, sum(sizes) / max(count, 1) + largest))
        if self.ranks.size > 1:  # as many for each rank, as far as there are enough rollouts
            count = -(-len(parts) // self.ranks.size) * self.ranks.size
            low, high = min(float(largest), float(self.micro_tokens)), float(self.micro_tokens)
            while high - low > 1:
                middle = (low + high) / 2
                low, high = (middle, high) if len(parts_of(middle)) > count else (low, middle)
            parts = parts_of(high)
        return [torch.tensor(part, device=batch.device) for part in parts]

    def step(
        self,
        update: Batch,
        terms: Sequence[Term],
        live: Sequence[Shape | Metric] = (),
        skip_above: float | None = None,
        on_logp: Callable[[Batch, Tensor], None] | None = None,
    ) -> tuple[UpdateResult, dict[str, float]]:
        """One optimiser step of every learner that the terms train; returns losses and gradient norms.

        `on_logp` is called with the policy's log-probabilities whenever they are computed on the way.
        """
        trained = sorted({t.trains for t in terms}, key=lambda name: (name != "policy", name))
        if "batch.update.policy" in update:  # the plan lets the policy learn alone, or all but the policy
            trained = [name for name in trained if (name == "policy") == bool(update["batch.update.policy"][0])]
        results = []
        for name in trained:
            of_learner = [t for t in terms if t.trains == name]
            is_policy = name == "policy"
            forward = partial(self._forward, name, on_logp if is_policy else None)
            parts = live if is_policy else ()

            def work(
                splits: list[Tensor], terms: Sequence[Term] = of_learner, forward: Forward = forward, live: Any = parts
            ) -> UpdateResult:
                return backward(terms, update, forward, splits, live, self.ranks)

            results.append(self._fitting(update, work, self.learners[name].optimizer.zero_grad))
            self.ranks.add_gradients(p for p in self.learners[name].policy.parameters() if p.requires_grad)
        # Every gradient is taken at the weights before the update: no learner steps until all gradients are there.
        result = UpdateResult.joined(results)
        why = partial(cause, update, terms, result.terms)
        norms = {
            name: self.learners[name].step(self.planned_updates, skip_above, why, self.rate_scale) for name in trained
        }
        metrics = {f"grad_norm.{name}": norm for name, norm in norms.items()}
        if skip_above is not None:
            metrics["skipped"] = sum(norm > skip_above for norm in norms.values()) / max(len(norms), 1)
        for name, decay in self.decays.items():
            if (followed := self.followed.get(name, "policy")) in trained:
                self.roles[name].average(self.learners[followed].policy, decay)
        return result, metrics

    def _fitting(self, batch: Batch, work: Callable[[list[Tensor]], T], undo: Callable[[], None] = lambda: None) -> T:
        """Do work in micro-batches. If they do not fit in the GPU's memory, undo it, repeat in smaller ones, warn."""
        shrunk = False
        while True:
            splits = self.split(batch)
            try:
                result = work(splits)
            except RuntimeError as error:
                if not out_of_memory(error):
                    raise
                largest = max(len(rows) for rows in splits)
            else:
                if shrunk:
                    warnings.warn(self._shrink_warning(), stacklevel=2)
                return result
            # Outside the handler, which holds the tensors that did not fit.
            undo()
            torch.cuda.empty_cache()
            self._shrink(largest)
            shrunk = True

    def _shrink_warning(self) -> str:
        recompute = any(x.policy.checkpointing for x in self.learners.values())
        way = ", and computes activations again in the backward pass" if recompute else ""
        return (
            "A pass did not fit in the GPU's memory. Training goes on, more slowly: from now on a pass takes at most "
            f"{self.micro_tokens:,} tokens (micro_tokens) or one rollout{way}."
        )

    def _shrink(self, largest: int) -> None:
        """Use less memory from now on; `largest` is the number of rollouts that did not fit together."""
        if largest > 1:
            self.micro_tokens = max(self.micro_tokens // 2, 1)
            return
        without_checkpointing = [x.policy for x in self.learners.values() if not x.policy.checkpointing]
        if not without_checkpointing:
            raise PodiumError(
                "A single rollout does not fit in the GPU's memory, with its activations computed again: "
                "use a smaller max_tokens, adapters (lora=16), or a smaller model."
            )
        for policy in without_checkpointing:
            policy.checkpoint_activations()

    def _forward(
        self, learner: str, on_logp: Callable[[Batch, Tensor], None] | None, batch: Batch, signals: Sequence[Signal]
    ) -> dict[Signal, Tensor]:
        now = [s for s in signals if s.of == "now"]
        computed = self.signals(batch, now, grad=torch.is_grad_enabled(), learner=learner)
        for signal in now:
            if on_logp is not None and signal.column == NOW.column:
                on_logp(batch, computed[signal])
        for signal in (s for s in now if not s.role):
            old = Signal(signal.name, of="old", level=signal.level, **dict(signal.settings))
            # At the only update of a batch the old policy is the current one: its numbers, held fixed.
            if old not in batch:
                computed[old] = computed[signal].detach()
        return computed

    def check_ranks(self) -> None:
        """Refuse to go on with ranks whose weights differ: all take the same steps."""
        if self.ranks.size == 1:
            return
        own = {
            name: math.fsum(float(p.detach().sum(dtype=torch.float64)) for p in learner.policy.parameters())
            for name, learner in self.learners.items()
        }
        for rank, sums in enumerate(self.ranks.gather(own)):
            for name, value in sums.items():
                if value != own[name] and not math.isnan(value):
                    raise PodiumError(
                        f"The weights of {name!r} on rank {rank} are not those of rank {self.ranks.rank}: the ranks "
                        "have computed different updates. Use the same hardware and versions for all of them."
                    )

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps of the learners in addition to their weights."""
        return {
            name: {"updates": x.updates} | ({"since": x.since} if x.since else {}) for name, x in self.learners.items()
        }


def _asked_of_role(signal: Signal) -> Signal:
    """What the role of a signal is asked for."""
    settings = {k: v for k, v in signal.settings if k != "role"}
    return Signal(signal.name, of=signal.role, level=signal.level, **settings)


def _columns(signal: Signal) -> dict[str, str]:
    """The settings of a signal that are columns of rollouts."""
    return {k: v for k, v in signal.settings if isinstance(v, str) and v.startswith("rollout.")}
