"""Groups over phrasings: each rollout answers the task in one of its equivalent wordings."""

from __future__ import annotations

import dataclasses

from podium.core.errors import PodiumError, within
from podium.core.part import Strategy
from podium.strategies.draw import Draw
from podium.strategies.requests import Plan, TaskRequest, rollouts_of
from podium.strategies.sample.sample import Sample

__all__ = ["Phrased"]


class Phrased(Strategy):
    """`pairs` pairs of rollouts of each task, which answer equivalent phrasings, each in a conversation of its own.

    The first pair answers the first two phrasings of the world, and so on, from the start again where there are no
    more. `rollout.pair` is the number of the pair in the group. Every rollout is trained after its own phrasing.
    """

    reference = "Information-Consistent Language Model Recommendations through GRPO"
    pairs: int = 4  # ≥ 1
    draw: Draw = Draw()

    needs = ("task.phrasings",)
    provides = ("rollout.pair",)

    def __post_init__(self) -> None:
        within(self, "pairs", 1)

    @property
    def n(self) -> int:
        return 2 * self.pairs

    @property
    def neutral(self) -> Sample:
        return Sample(n=self.n, draw=self.draw)

    def plan(self, task: TaskRequest) -> Plan:
        assert task.world is not None
        wordings = task.world.phrasings(task.task)
        if len(wordings) < 2 or len(wordings) % 2:
            raise PodiumError(
                f"Phrased needs pairs of phrasings, and the world {task.world.name!r} has {len(wordings)} of "
                f"{task.task.key}: give an even number."
            )
        wave = []
        for index in range(self.n):
            worded = dataclasses.replace(task, task=wordings[index % len(wordings)])
            wave.append(self.draw.play(worded, 1, first=index, columns={"pair": index // 2}))
        return rollouts_of((yield list(wave)))
