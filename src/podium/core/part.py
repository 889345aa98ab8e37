"""Parts: a formula at a stage.

A part is a frozen dataclass whose fields are its hyperparameters and whose call is the formula: it takes a batch and
returns columns by name. It declares what it `needs` (columns and signals) and `provides`, as attributes, or as
properties where settings change them.

    class Centred(Advantage):
        \"\"\"A = scale · (r − mean of the group).\"\"\"

        scale: float = 1.0
        needs = ("rollout.reward",)
        provides = ("rollout.advantage",)

        def __call__(self, batch):
            return {"rollout.advantage": self.scale * batch.by("rollout", "group").centre(batch["rollout.reward"])}
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import PodiumError
from podium.core.facts import RunFacts
from podium.core.schedule import Number
from podium.core.signal import Signal
from podium.core.value import Value

__all__ = [
    "Advantage",
    "Annotate",
    "Columns",
    "Keep",
    "Metric",
    "Need",
    "Part",
    "Probe",
    "Reward",
    "Select",
    "Shape",
    "Strategy",
    "constants",
    "repeated",
    "stop_gradient",
]

Columns = dict[str, Any]
Need = str | Signal


_constant: ContextVar[Callable[[Tensor], Tensor]] = ContextVar("constant", default=Tensor.detach)


def stop_gradient(x: Tensor) -> Tensor:
    """x as a constant. All stop-gradients go through here, so that tests can hold them fixed."""
    return _constant.get()(x)


@contextmanager
def constants(of: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """Let `of` say what `stop_gradient` returns: for finite differences, which must hold constants at one point."""
    token = _constant.set(of)
    try:
        yield
    finally:
        _constant.reset(token)


class Probe(Value):
    """Texts to score, by whom, and what their scores say of the batch. A part lists those it relies on in `probes`."""

    @property
    def signals(self) -> tuple[Signal, ...]:
        """What is computed for the tokens of the texts."""
        return ()

    @property
    def provides(self) -> tuple[str, ...]:
        """The columns of the batch that it writes."""
        return ()

    def texts(self, batch: Batch) -> Batch | None:
        """The texts as rollouts, whose tokens follow their training context; None: there is nothing to ask."""
        raise NotImplementedError

    def columns(self, batch: Batch, scored: Batch) -> Columns:
        """Columns of `batch` from the texts with their signals."""
        raise NotImplementedError


class Part(Value):
    """A formula at a stage."""

    stage: ClassVar[str] = ""
    reference: ClassVar[str] = ""  # where the formula comes from
    overflows: ClassVar[str] = ""  # why its result exceeds float32 for rewards of 1e30 or log-ratios of 1e4; else empty
    read_by_loop: ClassVar[tuple[str, ...]] = ()  # fields that the training loop reads and the formula does not

    @property
    def needs(self) -> tuple[Need, ...]:
        """Columns and signals that it reads."""
        return ()

    @property
    def provides(self) -> tuple[str, ...]:
        """Columns that it writes."""
        return ()

    @property
    def probes(self) -> tuple[Probe, ...]:
        """Texts that a model must score before this part is called: they write some of the columns it needs."""
        return ()

    @property
    def normalizes(self) -> bool:
        """Whether it divides by a spread of rewards or advantages."""
        return False

    @property
    def neutral(self) -> Part | None:
        """What does nothing in its place, for `podium methods probe`; None: it is left out, or replaced by what is
        usual at its stage."""
        return None

    def inert(self, facts: RunFacts) -> Iterable[str]:
        """Why it, or something in it, cannot act in such a run: sentences that continue its name, each with the
        remedy."""
        return ()

    @property
    def live(self) -> bool:
        """Whether it depends on the current policy, and so is evaluated once per update instead of once per batch."""
        return any(isinstance(need, Signal) and need.of == "now" for need in self.needs)


class _BatchPart(Part):
    def __call__(self, batch: Batch) -> Columns:
        raise NotImplementedError


class Select(Part):
    """Which tasks to sample next: a weight for each, from what the memories recall of them."""

    stage = "select"

    def __call__(self, columns: Mapping[str, Tensor]) -> Tensor:
        """[task] how likely each task is to be drawn, relative to the others; 0: not at all."""
        raise NotImplementedError

    def propensities(self, columns: Mapping[str, Tensor]) -> Tensor | None:
        """[task] the exact probability of each task in every single draw, which is logged as `rollout.propensity`; None
        where draws depend on each other."""
        return None

    def choose(self, columns: Mapping[str, Tensor], count: int) -> Tensor:
        """[count] the numbers of the tasks to sample, none twice while there are others.

        `group.random`, a uniform number for each task, is all the chance there is: of independent clocks that ring at
        the rates of the weights the first ones are taken, which is a draw without replacement.
        """
        weight = self(columns)
        rings = -columns["group.random"].log() / weight
        return repeated(torch.argsort(rings, stable=True)[: int((weight > 0).sum())], count)


def repeated(order: Tensor, count: int) -> Tensor:
    """The first `count` of an order that begins again at its end."""
    if not len(order):
        raise PodiumError("No task is left to choose from: the select stage gives all of them the weight 0.")
    return order.repeat(-(-count // len(order)))[:count]


class _Drawn(Protocol):
    """What the training loop must know of how a strategy draws tokens (`podium.strategies.Draw`)."""

    @property
    def temperature(self) -> Number: ...

    @property
    def restricts(self) -> bool: ...

    @property
    def shift(self) -> Signal | None: ...

    @property
    def format(self) -> Any: ...

    @property
    def seats(self) -> tuple[Any, ...]: ...


class Strategy(Part):
    """How the rollouts of a task are made: `plan` asks for them in waves of requests (`podium.strategies.requests`).

    What the training loop reads of a strategy is declared here. Most strategies have `n` and `draw` as fields.
    """

    stage = "rollout"

    @property
    def n(self) -> int | None:
        """Rollouts of each task, on average where the number varies; None: not known in advance."""
        return None

    @property
    def draw(self) -> _Drawn | None:
        """How its rollouts are drawn; None: from the model's own distribution, or not sampled at all."""
        return None

    @property
    def temperature(self) -> Number:
        """The temperature that its rollouts are sampled at; the trainer scores them at the same one."""
        return 1.0 if self.draw is None else self.draw.temperature

    @property
    def format(self) -> Any:
        """How its rollouts are written and read (`podium.protocols.format.Format`); None: as plain text."""
        return None if self.draw is None else self.draw.format

    @property
    def draw_shift(self) -> Signal | None:
        """By how much the log-probability of a token under softmax(logits / temperature), which the trainer computes,
        exceeds that under the distribution it was drawn from; None: the two are the same."""
        return None if self.draw is None else self.draw.shift

    @property
    def restricts(self) -> bool:
        """Whether its rollouts are drawn from a part of the distribution, which the sampler must record."""
        return self.draw is not None and self.draw.restricts

    @property
    def seats(self) -> tuple[Any, ...]:
        """Who plays the agents of its world (`podium.protocols.seats.Seat`), where it is not the policy alone."""
        return () if self.draw is None else self.draw.seats

    @property
    def writers(self) -> tuple[str, ...]:
        """The roles that write for it: part of its rollouts, or a judge's verdicts on them."""
        return self.seated

    @property
    def seated(self) -> tuple[str, ...]:
        """The roles, besides the policy, that play an agent."""
        return tuple(dict.fromkeys(seat.by for seat in self.seats if seat.by != "policy" and isinstance(seat.by, str)))

    @property
    def roles_asked(self) -> tuple[str, ...]:
        """Roles, besides the policy, whose models its plans query."""
        return ()

    def prepare(self, world: Any = None) -> tuple[str, ...]:
        """Check what the plans will read, such as files, before anything is sampled. Returns warnings for the user."""
        return ()

    def taught(self, recalled: Mapping[str, Any]) -> tuple[str, str]:
        """The texts above and below a held-out question, by what the memories recall: what has been learnt in words."""
        return "", ""

    def acted(self, rollouts: Sequence[Any]) -> int:
        """On how many of these rollouts it did what plain sampling does not; all of them where that is all it does."""
        return len(rollouts)

    def plan(self, task: Any) -> Any:
        """A generator that yields waves of requests and returns the rollouts of one task."""
        raise NotImplementedError

    def plans(self, tasks: Sequence[Any]) -> list[Any]:
        """The plans of a batch: one for each task, or a single one that returns the rollouts of all tasks."""
        return [self.plan(task) for task in tasks]


class Annotate(_BatchPart):
    """Writes columns that later stages read: what was said, how likely, what a critic makes of it. No reward."""

    stage = "annotate"


class Reward(_BatchPart):
    """Writes named rewards."""

    stage = "reward"

    @property
    def constant_within(self) -> str:
        """The level within which what it adds never varies; empty: it does vary."""
        return ""


class Keep(_BatchPart):
    """Drops what should not be trained: writes `keep` columns that are False there."""

    stage = "keep"

    @property
    def top_up(self) -> bool:
        """Whether more rollouts are sampled in place of dropped groups."""
        return False

    @property
    def max_rounds(self) -> int:
        """How often a batch is sampled for at most; 0: no limit."""
        return 1

    @property
    def carry_over(self) -> bool:
        """Whether kept groups beyond the batch wait for the next one instead of being cut."""
        return False


class Advantage(_BatchPart):
    """Writes `advantage` at the level at which the method credits."""

    stage = "advantage"

    @property
    def centred_within(self) -> tuple[str, ...]:
        """The levels or columns within whose cells it subtracts a mean or median: what is constant there has no effect.
        Empty: it does not."""
        return ()


class Shape(_BatchPart):
    """Changes advantages, weights, keeps or clip bounds."""

    stage = "shape"


class Metric(_BatchPart):
    """Writes numbers that are only reported."""

    stage = "metric"
