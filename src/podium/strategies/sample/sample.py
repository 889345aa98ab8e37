"""The plain strategy: n independent rollouts of each task."""

from __future__ import annotations

import dataclasses
from functools import cached_property
from typing import Any

from podium.core.columns import Purpose
from podium.core.errors import PodiumError, one_of, within
from podium.core.part import Need, Strategy
from podium.protocols.world import World
from podium.strategies.draw import Draw
from podium.strategies.requests import Plan, Recite, TaskRequest, Wave, rollouts_of
from podium.strategies.teachers.traces import Traces, check_traces, existing, read_traces

__all__ = ["Sample"]


class Sample(Strategy):
    """`n` independent rollouts of each task; on request also a greedy rollout as a baseline, and demonstrations."""

    n: int = 8
    greedy_baseline: bool = False  # one more rollout at temperature 0, of purpose `baseline`
    # How many of the n rollouts are trained, while the rest only vote; below 1: the share of them; None: all.
    trained: float | None = None
    demonstrations: tuple[str, ...] = ()  # styles of the world's solutions: each adds a solution as a rollout
    demonstrate_as: str = "demo"  # demo: trained, not in statistics; train: both; baseline: neither
    draw: Draw = Draw()
    traces: str = ""  # a file of demonstrations, JSON lines with the key of a `task` and a text or `turns`; empty: none

    def __post_init__(self) -> None:
        within(self, "n", 1)
        within(self, "trained", 0, self.n, open_low=True, optional=True)
        if self.trained is not None and self.trained > 1 and self.trained != int(self.trained):
            raise PodiumError(f"Sample.trained = {self.trained} is neither a number of rollouts nor a share below 1.")
        one_of(self, "demonstrate_as", ("demo", "train", "baseline"))
        if self.traces and self.demonstrations:
            raise PodiumError("Sample takes demonstrations from a file (traces) or from the world (demonstrations).")

    def prepare(self, world: World | None = None) -> tuple[str, ...]:
        if self.traces and world is not None:
            existing(self.traces, "then name styles of the world's solutions as demonstrations")
            check_traces(self.traces, self.traces_by_task, world)
        return ()

    @cached_property
    def traces_by_task(self) -> Traces:
        """The demonstrations in the file."""
        return read_traces(self.traces)

    @property
    def demonstrates(self) -> bool:
        """Whether some rollouts are demonstrations."""
        return bool(self.demonstrations or self.traces)

    @property
    def needs(self) -> tuple[Need, ...]:
        return ("task.solution",) if self.demonstrations else ()

    @property
    def provides(self) -> tuple[str, ...]:
        marks = ("rollout.purpose", "rollout.demonstration", "rollout.sampled")
        return marks if self.demonstrates else marks[:1] if self.greedy_baseline else ()

    @property
    def trained_rollouts(self) -> int:
        """How many of the n rollouts are trained."""
        if self.trained is None:
            return self.n
        return max(round(self.trained * self.n), 1) if self.trained < 1 else int(self.trained)

    def plan(self, task: TaskRequest) -> Plan:
        trained = self.trained_rollouts
        # Where some rollouts are demonstrations, every rollout says whether it is one.
        columns = {"demonstration": False, "sampled": True} if self.demonstrates else {}
        play = self.draw.play(task, trained, columns=columns)
        wave: Wave = [play]
        if trained < self.n:
            wave.append(dataclasses.replace(play, n=self.n - trained, purpose=Purpose.vote, first=trained))
        if self.greedy_baseline:
            greedy = self.draw.sampling(task.sampling).replace(temperature=0.0, top_p=1.0)
            wave.append(dataclasses.replace(play, n=1, sampling=greedy, purpose=Purpose.baseline, first=self.n))
        traces = self.traces_by_task.get(task.task.key, ()) if self.traces else ()
        shown: list[dict[str, Any]] = [
            *({"style": style} for style in self.demonstrations),
            *({"texts": turns} for turns in traces),
        ]
        for index, what in enumerate(shown, start=self.n + self.greedy_baseline):
            wave.append(self._demonstration(task, index, **what))
        return rollouts_of((yield wave))

    def _demonstration(self, task: TaskRequest, index: int, **what: Any) -> Recite:
        return Recite(
            task,
            **what,
            purpose=Purpose[self.demonstrate_as],
            index=index,
            columns={"demonstration": True, "sampled": False},
            context=self.draw.context,
            train_context=self.draw.train_context,
        )
