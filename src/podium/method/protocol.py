"""How a method is trained, beside its formulas: what the authors' run was, and where its mechanism can be seen at work.

Optimiser steps and epochs per batch are part of a method (`updates`), as are rollouts per task and the temperature
(`rollout`), the learning rates of roles, and stages (`Phases`). What is left is here.
"""

from __future__ import annotations

from typing import Any

from podium.core.errors import one_of, within
from podium.core.value import Value

__all__ = ["DEFAULTS", "SCHEDULES", "Home", "Protocol"]

SCHEDULES = ("constant", "linear", "cosine")  # of the learning rate, after the warm-up


class Protocol(Value):
    """The authors' run; None where nothing is known.

    A run takes the optimiser's structure from it: betas, weight decay, clipping, schedule, and the warm-up as a share
    of the updates. If it is `exact`, as in `SLUG@paper`, it takes the numbers, too.
    """

    model: str = ""  # what they trained
    lr: float | None = None  # of the policy
    betas: tuple[float, float] | None = None  # of AdamW
    weight_decay: float | None = None
    warmup: float | None = None  # updates; below 1: a share of all updates
    schedule: str | None = None  # constant, linear or cosine
    final: float | None = None  # where the schedule ends, as a share of the learning rate; None: at 0
    clip: float | None = None  # of the gradient norm; 0: none
    tasks: int | None = None  # per iteration
    iterations: int | None = None
    max_tokens: int | None = None  # per turn
    max_turns: int | None = None
    pool: int | None = None  # distinct tasks of their training data
    source: str = ""  # where the numbers come from
    exact: bool = False  # whether a run takes all numbers from here

    def __post_init__(self) -> None:
        within(self, "lr", 0, open_low=True, optional=True)
        within(self, "final", 0, 1, optional=True)
        for name in ("weight_decay", "warmup", "clip"):
            within(self, name, 0, optional=True)
        for name in ("tasks", "iterations", "max_tokens", "max_turns", "pool"):
            within(self, name, 1, optional=True)
        if self.schedule is not None:
            one_of(self, "schedule", SCHEDULES)

    def warmup_updates(self, iterations: int, updates: int) -> int | None:
        """The warm-up of a run of so many iterations, with so many updates each; None where nothing is known of it.

        It has the same share of the run as the authors' warm-up had of theirs; where the length of that run is not
        known, at most a tenth.
        """
        if self.warmup is None or (self.exact and self.warmup >= 1):
            return None if self.warmup is None else int(self.warmup)
        share = self.warmup
        if share >= 1 and self.iterations is not None:
            share = share / (self.iterations * updates)
        planned = iterations * updates
        return round(share * planned) if share < 1 else min(int(share), planned // 10)


# What a run has where neither its configuration nor a protocol says otherwise. The learning rate is that of methods
# without a protocol: others have one by the size of the model (`podium.training.learning_rates`).
DEFAULTS = Protocol(
    lr=1e-4,
    betas=(0.9, 0.99),
    weight_decay=0.0,
    warmup=0,
    schedule="constant",
    final=0.0,
    clip=1.0,
    tasks=16,
    iterations=60,
)


class Home(Value):
    """A small task on which a method's mechanism acts: an embedded world, its level and dials, and the run's size."""

    world: str = "sums"
    level: int | None = None  # None: the world's own
    dials: dict[str, Any] | None = None  # other settings of the world
    iterations: int = 12
    tasks: int = 16
    max_tokens: int | None = None  # None: the world's
    pool: int | None = None  # distinct training tasks; None: as any run decides
    model: str | None = None  # None: as any run decides

    def __post_init__(self) -> None:
        within(self, "iterations", 1)
        within(self, "tasks", 1)
        within(self, "max_tokens", 1, optional=True)
        within(self, "pool", 1, optional=True)

    @property
    def world_settings(self) -> dict[str, Any]:
        """Level and dials as the settings of the world."""
        return {**({} if self.level is None else {"level": self.level}), **(self.dials or {})}

    @property
    def run_settings(self) -> dict[str, Any]:
        """What a run is configured with to train there."""
        sizes: dict[str, Any] = {"iterations": self.iterations, "tasks": self.tasks}
        sizes |= {name: x for name in ("max_tokens", "pool", "model") if (x := getattr(self, name)) is not None}
        return {"world": self.world, "world_settings": self.world_settings or None, **sizes}
