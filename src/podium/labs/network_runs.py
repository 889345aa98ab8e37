"""Runs of policies that write no text, for trials: trained in memory, without a run directory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from podium.core.build import Rollout
from podium.evaluation.measure import held_out
from podium.method import Method
from podium.sessions.train import configure
from podium.training.build import build_run
from podium.training.loop import iterate
from podium.training.run import Run

__all__ = ["held_out_rollouts", "trained_run"]


@contextmanager
def trained_run(method: Method, seed: int, **settings: Any) -> Iterator[Run]:
    """A run that has been trained to its end."""
    with closing(build_run(configure(method, seed=seed, **settings))) as run:
        while not run.finished:
            iterate(run)
        yield run


def held_out_rollouts(run: Run, tasks: int, samples: int, temperature: float = 1.0) -> list[list[Rollout]]:
    """Rollouts of held-out tasks, the same ones for every method."""
    return held_out(run.driver, tasks=tasks, samples=samples, seed=run.config.seed, temperature=temperature)
