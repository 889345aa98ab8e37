"""Demonstrations alone: the world's solutions in place of rollouts, for a stage of imitation."""

from __future__ import annotations

import dataclasses
from typing import Any

from podium.core.errors import within
from podium.core.part import Strategy
from podium.protocols.world import World
from podium.strategies.draw import Draw
from podium.strategies.requests import Plan, Recite, TaskRequest, Wave, rollouts_of

__all__ = ["Demonstrate"]


class Demonstrate(Strategy):
    """`n` of the world's solutions of each task, written in the format of `draw`; nothing is sampled.

    They are trained and take no part in statistics. Each has the next one of the `styles`. `others` are further ways
    to ask and to write, with n solutions each. With `dials` the tasks are shown in the world as these settings make it.
    """

    n: int = 1
    styles: tuple[str, ...] = ("short",)  # of the world's solutions
    draw: Draw = Draw()  # its contexts and its format
    others: tuple[Draw, ...] = ()
    dials: dict[str, Any] | None = None  # settings of the world that differ while it demonstrates

    needs = ("task.solution",)
    provides = ("rollout.purpose", "rollout.demonstration", "rollout.sampled")

    def __post_init__(self) -> None:
        within(self, "n", 1)

    def prepare(self, world: World | None = None) -> tuple[str, ...]:
        self._shown(world)  # refuses settings that the world does not have
        return ()

    def _shown(self, world: World | None) -> World | None:
        """The world with the dials; None where there are none."""
        return None if self.dials is None or world is None else world.replace(**self.dials)

    def plan(self, task: TaskRequest) -> Plan:
        world = self._shown(task.world)
        wave: Wave = [
            Recite(
                dataclasses.replace(task, format=draw.format),
                style=self.styles[number % len(self.styles)],
                index=way * self.n + number,
                columns={"demonstration": True, "sampled": False},
                context=draw.context,
                train_context=draw.train_context,
                episode=None if world is None else world.reset(task.task),
            )
            for way, draw in enumerate((self.draw, *self.others))
            for number in range(self.n)
        ]
        return rollouts_of((yield wave))
