"""Scaffolded starts: the answer begins with the first segments of a solution."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from podium.core.columns import Origin
from podium.core.errors import one_of, within
from podium.core.part import Strategy
from podium.core.streams import key
from podium.protocols.world import World
from podium.strategies.draw import Draw
from podium.strategies.hints.help import reasoning, solution, without_reasoning
from podium.strategies.hints.repair import MARKS, helped, marked
from podium.strategies.hints.segments_of_solution import prefixes_of, solution_segments
from podium.strategies.requests import Plan, TaskRequest, Written, rollouts_of
from podium.strategies.sample.sample import Sample

__all__ = ["Scaffolded"]


class Scaffolded(Strategy):
    """`n` rollouts of each task that all begin with the first ℓ segments of the world's solution, ℓ = 0 … `levels`.

    The level of a group is drawn by its stream, evenly from those that the solution has; at 0 there is no help, at the
    highest the whole reasoning is given. What is given is part of the answer, of origin `hint`, and not trained. A
    solution of `unit` lines is cut into lines in equal shares, one of `text` as the release cuts it. A task without a
    solution is asked at level 0. `rollout.help.level` is ℓ.
    """

    reference = "SPARKLE, https://github.com/sparkle-reasoning/sparkle"
    n: int = 8
    levels: int = 4
    unit: str = "lines"  # lines, or text: paragraphs, items, headings or sentences
    style: str = "short"  # of the world's solution
    draw: Draw = Draw()

    needs = ("task.solution",)
    provides = MARKS

    def __post_init__(self) -> None:
        within(self, "n", 1)
        within(self, "levels", 1)
        one_of(self, "unit", ("lines", "text"))

    def prepare(self, world: World | None = None) -> tuple[str, ...]:
        return without_reasoning(world, self.style)

    @property
    def neutral(self) -> Sample:
        return Sample(n=self.n, draw=self.draw)

    def acted(self, rollouts: Sequence[Any]) -> int:
        return helped(rollouts)

    def segments(self, text: str) -> list[str]:
        """The segments of a solution, without its final answer."""
        whole = reasoning(text)
        if self.unit == "text":
            return solution_segments(whole, self.levels)
        lines = whole.splitlines()
        return solution_segments("\n\n".join(lines), min(self.levels, len(lines))) if lines else []

    def plan(self, task: TaskRequest) -> Plan:
        prefixes = prefixes_of(self.segments((yield from solution(task, self.style))))
        level = key(0, (*task.stream, 4)) % (len(prefixes) + 1)
        begun = None
        if level:
            text = prefixes[level - 1].replace("\n\n", "\n") if self.unit == "lines" else prefixes[level - 1]
            begun = Written(text=text + "\n", origin=Origin.hint, trained=False)
        rollouts = rollouts_of((yield [self.draw.play(task, self.n, begun=begun)]))
        group = []
        for rollout in rollouts:
            member = marked(rollout, guided=level > 0, missing=not prefixes)
            group.append(dataclasses.replace(member, columns={**member.columns, "help.level": float(level)}))
        return group
