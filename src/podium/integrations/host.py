"""What a method needs that another trainer may lack, and the stages of an iteration on the columns that it has."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from podium.core.batch import Batch
from podium.core.errors import PodiumError
from podium.core.memory import Memory
from podium.core.part import Metric, Part
from podium.core.shares import scaled
from podium.core.signal import Signal
from podium.core.updates import Updates
from podium.core.value import Clock
from podium.method import Method
from podium.strategies import Sample
from podium.training.live_parts import fixed_metrics, fixed_shapes, live_parts, signals_before_updates
from podium.training.memory_states import Memories

__all__ = ["IN_TRL", "Guest", "HostTrainer", "refusals", "remarks"]

# What a batch of TRL has; further columns of the data set are `rollout.NAME`.
IN_TRL = (
    *("token.id", "token.position", "group.task", "turn.text"),
    *(f"rollout.{name}" for name in ("reward", "correct", "length", "truncated", "text", "prompt", "domain")),
    *("rollout.purpose", "rollout.index"),
)
SOURCES = ("now", "old", "ref", "sampler")
# What a rollout strategy or its draw may say besides how many answers, and from which distribution.
PLAIN = {"trained": None, "greedy_baseline": False, "demonstrations": (), "traces": ""}
PLAIN_DRAW = {"grammar": None, "warmth": None, "context": None, "train_context": None, "format": None, "seats": ()}


@dataclass(frozen=True)
class HostTrainer:
    """A trainer that a method is to run in: the columns that it has, and whether it plays episodes of several turns,
    whose columns (`turn.…`) are then the business of whoever plays them."""

    name: str
    columns: Collection[str]
    turns: bool = False
    signals: Collection[str] = ("logp", "entropy")


def refusals(method: Method, host: HostTrainer) -> list[str]:
    """Why a method cannot run in a host: a sentence for each reason; none: it can."""
    if len(list(method.leaves())) > 1:
        return [f"It has several phases, and {host.name} trains with one objective."]
    return [*_of_rollouts(method, host), *_of_models(method, host), *_of_memories(method), *_unmet(method, host)]


def remarks(method: Method) -> list[str]:
    """What is different in another trainer, though the method runs there."""
    dynamic = [type(part).__name__ for part in method.keep if part.top_up]
    return [f"{name} drops groups, and no others are sampled in their place." for name in dynamic]


def _of_rollouts(method: Method, host: HostTrainer) -> list[str]:
    strategy, found = method.rollout, []
    if method.select is not None:
        found.append(f"{type(method.select).__name__} chooses tasks, which {host.name}'s data loader does.")
    if strategy is None or type(strategy) is not Sample:
        name = "no strategy" if strategy is None else type(strategy).__name__
        found.append(f"Its rollouts come from {name}; {host.name} samples each prompt's answers on its own.")
        return found
    odd = [name for name, usual in PLAIN.items() if getattr(strategy, name) != usual]
    odd += [f"draw.{name}" for name, usual in PLAIN_DRAW.items() if getattr(strategy.draw, name) != usual]
    if odd:
        found.append(f"Its rollouts are drawn with {', '.join(odd)}, which {host.name} does not have.")
    if type(method.updates) is not Updates:
        found.append(f"{type(method.updates).__name__} decides what each update holds, which {host.name} does.")
    return found


def _of_models(method: Method, host: HostTrainer) -> list[str]:
    found = []
    others = sorted({term.trains for term in method.objective} - {"policy"})
    if others:
        found.append(f"It trains {', '.join(others)} beside the policy.")
    roles = [
        r.name
        for r in method.roles
        if r.name not in others and (r.name != "ref" or r.source != "initial" or r.decay is not None or r.refresh)
    ]
    if roles:
        found.append(f"It needs the model {', '.join(roles)}, and {host.name} has one reference that stays as it is.")
    readers: list[Part | Memory] = [*method.parts(), *method.memories]
    odd = {
        repr(need)
        for part in readers
        for need in part.needs
        if isinstance(need, Signal)
        and (
            need.of not in SOURCES
            or need.settings
            or need.level != "token"
            or need.name not in host.signals
            or (need.of == "ref" and need.name != "logp")
        )
    }
    if odd:
        found.append(f"{host.name} computes log-probabilities and entropies, not {', '.join(sorted(odd))}.")
    if any(part.probes for part in method.parts()):
        found.append(f"It scores texts of its own, which {host.name} cannot.")
    if not method.objective:
        found.append("It learns in its memories alone: there is nothing to train.")
    return found


def _of_memories(method: Method) -> list[str]:
    found = []
    for memory in method.memories:
        kind = type(memory)
        if kind.replay is not Memory.replay or kind.revisit is not Memory.revisit:
            found.append(f"{kind.__name__} trains rollouts of earlier iterations.")
        elif memory.reader or any(isinstance(n, Signal) and n.of == "now" for n in memory.needs):
            found.append(f"{kind.__name__} asks a model after the update.")
    return found


def _unmet(method: Method, host: HostTrainer) -> list[str]:
    """The columns that nobody writes."""
    have = {*host.columns, "token.advantage", "token.reward", "group.task", "group.keep"}
    have |= {column for memory in method.memories for column in memory.provides}
    missing: dict[str, str] = {}
    for part in method.parts():
        for need in part.needs:
            if (
                isinstance(need, str)
                and not _there(need, have)
                and not (host.turns and need.startswith(("turn.", "step.")))
            ):
                missing.setdefault(need, type(part).__name__)
        have |= set(part.provides)
    for memory in method.memories:
        for need in memory.needs:
            if isinstance(need, str) and not _there(need, have):
                missing.setdefault(need, type(memory).__name__)
    return [f"{reader} reads {column}, which {host.name} does not have." for column, reader in missing.items()]


def _there(column: str, have: Collection[str]) -> bool:
    """Whether there is a column, or one of a level above, whose values a batch copies down."""
    level, _, name = column.partition(".")
    above = {"token": ("turn", "rollout", "group", "batch"), "turn": ("rollout", "group", "batch")}
    return column in have or any(f"{upper}.{name}" in have for upper in above.get(level, ()))


@dataclass
class Guest:
    """A method that runs in a host: its stages up to the updates, and its memories."""

    method: Method
    host: HostTrainer
    iterations: int  # of the whole run, for schedules that go by it
    max_tokens: int
    memories: Memories = field(init=False)
    dropped: list[Batch] = field(default_factory=list)  # groups of the current batch that are not trained

    def __post_init__(self) -> None:
        if reasons := refusals(self.method, self.host):
            raise PodiumError(
                f"{self.method.name or 'The method'} does not run in {self.host.name}. {' '.join(reasons)}"
            )
        self.method = scaled(self.method, {"iterations": self.iterations, "max_tokens": self.max_tokens})
        self.memories = Memories(self.method, self)  # type: ignore[arg-type]
        self.now = self.method.at(Clock())

    def provide(self, batch: Batch, wanted: Sequence[Signal]) -> Batch:
        """The host has computed what there is to compute: what its memories ask for, `refusals` has refused."""
        return batch

    @property
    def before_updates(self) -> list[Signal]:
        """The signals that the host computes before the first update, with the policy that sampled."""
        parts: list[Part] = [*self.method.annotate, *self.method.reward, *self.method.keep, *fixed_shapes(self.method)]
        parts += [*fixed_metrics(self.method), *([self.method.advantage] if self.method.advantage else [])]
        early = [n for part in parts for n in part.needs if isinstance(n, Signal) and n.of != "now"]
        return [*early, *signals_before_updates(self.method, live_parts(self.method))]

    def credited(self, batch: Batch, iteration: int) -> Batch:
        """A batch with the columns of all stages before the updates. Groups that are dropped stay, as `group.keep`
        says; they are in no statistic of the stages after `keep`."""
        clock = Clock(iteration, self.memories.scalars(self.method), {})
        self.now = method = self.method.at(clock)
        self.memories.begin()
        self.dropped = []
        batch = self.memories.of_batch(method, batch)
        for part in (*method.annotate, *method.reward, *method.keep):
            batch = batch.with_columns(part(batch))
        kept = batch.get("group.keep")
        if kept is not None and bool(kept.any()) and not bool(kept.all()):
            self.dropped = [batch.take("group", ~kept)]
            batch = batch.take("group", kept)
        for part in (*([method.advantage] if method.advantage else []), *fixed_shapes(method), *fixed_metrics(method)):
            batch = batch.with_columns(part(batch))
        return batch

    def numbers(self, batch: Batch) -> dict[str, float]:
        """The means of the method's metrics."""
        found = {}
        for part in fixed_metrics(self.now):
            for name in part.provides if isinstance(part, Metric) else ():
                values = batch[name].double()
                values = values[values.isfinite()]
                if len(values):
                    found[name.partition(".")[2]] = float(values.mean())
        return found

    def observe(self, batch: Batch) -> None:
        """Show the memories a batch that has been trained."""
        self.memories.observe(self.now, batch, self.dropped)

    def column(self, values: Sequence[Any], device: torch.device) -> Any:
        """Values of a data set as a column: numbers as a tensor, texts as they are."""
        if all(isinstance(v, bool) for v in values):
            return torch.tensor(values, device=device)
        if all(isinstance(v, (int, float)) for v in values):
            return torch.tensor(values, device=device, dtype=torch.float32)
        return list(values)
