"""Pairs of answers that the world writes itself: a right attempt and a wrong one."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from podium.core.build import Rollout
from podium.core.errors import PodiumError, within
from podium.core.part import Strategy
from podium.core.streams import key
from podium.strategies.requests import Plan, Recite, TaskRequest, Wave, rollouts_of

__all__ = ["AttemptedPairs"]

TRIES = 20  # seeds until a wrong attempt differs from the right one


class AttemptedPairs(Strategy):
    """A right and a wrong attempt at each task, as the world writes them; nothing is sampled.

    The wrong one slips at one of its steps. A task has the same pair whenever it comes back. With `flip`, so many
    pairs have their rewards exchanged, as if a labeller had erred: `rollout.flipped` marks them, and no part should
    read it but a metric.
    """

    styles: tuple[str, str] = ("short", "short")  # of the right and of the wrong attempt
    flip: float = 0.0  # the share of pairs whose rewards are exchanged; from 0 to 1

    n = 2
    needs = ("task.solution",)
    provides = ("rollout.purpose", "rollout.demonstration", "rollout.sampled", "rollout.flipped")

    def __post_init__(self) -> None:
        within(self, "flip", 0, 1)
        if len(self.styles) != 2:
            raise PodiumError(f"AttemptedPairs.styles = {self.styles!r} must be two: of the right and the wrong one.")

    def prepare(self, world: Any = None) -> tuple[str, ...]:
        if world is not None and not hasattr(world, "attempt"):
            raise PodiumError(
                f"The world {world.name!r} writes no wrong attempts, so it has no pairs: take one that does, such as "
                "sums, a file of pairs (source=FILE), or the best and worst of samples (source=best-worst)."
            )
        return ()

    def plan(self, task: TaskRequest) -> Plan:
        # By the task alone, so that a pair that comes back has the same label.
        flipped = key(0, tuple(map(ord, task.task.key))) / 2**64 < self.flip
        columns = {"demonstration": True, "sampled": False, "flipped": flipped}
        wave: Wave = [Recite(task, texts=texts, index=i, columns=columns) for i, texts in enumerate(self._texts(task))]
        rollouts = rollouts_of((yield wave))
        return _exchanged(rollouts) if flipped else rollouts

    def _texts(self, task: TaskRequest) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The turns of the right and of the wrong attempt."""

        def attempt(style: str, seed: int, right: float) -> tuple[str, ...]:
            written = task.world.attempt(task.task, style, seed, right)  # type: ignore[union-attr]
            return (written,) if isinstance(written, str) else tuple(written)

        right, style = attempt(self.styles[0], 0, 1.0), self.styles[1]
        wrong = (attempt(style, seed, 0.5) for seed in range(TRIES) if _slips(attempt, style, seed))
        return right, next(wrong, right)


def _slips(attempt: Callable[[str, int, float], tuple[str, ...]], style: str, seed: int) -> bool:
    """Whether the attempt with this seed is a wrong one."""
    return attempt(style, seed, 0.5) != attempt(style, seed, 1.0)


def _exchanged(rollouts: Sequence[Rollout]) -> list[Rollout]:
    """Two rollouts, each with the reward of the other."""
    rewards = [rollout.columns["reward"] for rollout in reversed(rollouts)]
    return [
        dataclasses.replace(rollout, columns={**rollout.columns, "reward": reward})
        for rollout, reward in zip(rollouts, rewards, strict=True)
    ]
