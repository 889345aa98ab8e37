"""What a part may know of the run that it is in, to say beforehand whether it can act there."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["RunFacts"]


@dataclass(frozen=True)
class RunFacts:
    """The size of a run, as its configuration and its world decide it."""

    iterations: int
    tasks: int  # per iteration
    max_tokens: int  # per turn
    max_turns: int  # of an episode
    pool: int | None = None  # distinct training tasks; None: no end of them
    updates: int = 1  # optimiser steps per batch, which the method decides

    @property
    def tasks_come_back(self) -> bool:
        """Whether the run meets a task twice."""
        return self.pool is not None and self.pool < self.tasks * self.iterations
