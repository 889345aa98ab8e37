"""The plain strategy: n independent rollouts of each task."""

from __future__ import annotations

import dataclasses

from podium.core.columns import Purpose
from podium.core.errors import one_of, within
from podium.core.part import Need, Strategy
from podium.strategies.draw import Draw
from podium.strategies.requests import Plan, Recite, TaskRequest, Wave, rollouts_of

__all__ = ["Sample"]


class Sample(Strategy):
    """`n` independent rollouts of each task; on request also a greedy rollout as a baseline, and demonstrations."""

    n: int = 8
    greedy_baseline: bool = False  # one more rollout at temperature 0, of purpose `baseline`
    trained: int | None = None  # how many of the n rollouts are trained, the rest only vote; None: all of them
    demonstrations: tuple[str, ...] = ()  # styles of the world's solutions: each adds a solution as a rollout
    demonstrate_as: str = "demo"  # demo: trained, not in statistics; train: both; baseline: neither
    draw: Draw = Draw()

    def __post_init__(self) -> None:
        within(self, "n", 1)
        within(self, "trained", 1, self.n, optional=True)
        one_of(self, "demonstrate_as", ("demo", "train", "baseline"))

    @property
    def needs(self) -> tuple[Need, ...]:
        return ("task.solution",) if self.demonstrations else ()

    @property
    def provides(self) -> tuple[str, ...]:
        marks = ("rollout.purpose", "rollout.demonstration", "rollout.sampled")
        return marks if self.demonstrations else marks[:1] if self.greedy_baseline else ()

    def plan(self, task: TaskRequest) -> Plan:
        trained = self.n if self.trained is None else self.trained
        # Where some rollouts are demonstrations, every rollout says whether it is one.
        columns = {"demonstration": False, "sampled": True} if self.demonstrations else {}
        play = self.draw.play(task, trained, columns=columns)
        wave: Wave = [play]
        if trained < self.n:
            wave.append(dataclasses.replace(play, n=self.n - trained, purpose=Purpose.vote, first=trained))
        if self.greedy_baseline:
            greedy = self.draw.sampling(task.sampling).replace(temperature=0.0, top_p=1.0)
            wave.append(dataclasses.replace(play, n=1, sampling=greedy, purpose=Purpose.baseline, first=self.n))
        for index, style in enumerate(self.demonstrations, start=self.n + self.greedy_baseline):
            wave.append(self._demonstration(task, style, index))
        return rollouts_of((yield wave))

    def _demonstration(self, task: TaskRequest, style: str, index: int) -> Recite:
        return Recite(
            task,
            style=style,
            purpose=Purpose[self.demonstrate_as],
            index=index,
            columns={"demonstration": True, "sampled": False},
            context=self.draw.context,
            train_context=self.draw.train_context,
        )
