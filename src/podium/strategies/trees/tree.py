"""Trees of fixed depth: every segment of text is continued in several ways."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Hashable, Sequence
from typing import Any

from podium.core.build import Rollout
from podium.core.errors import PodiumError, within
from podium.core.part import Strategy
from podium.core.schedule import Count
from podium.strategies.draw import Draw
from podium.strategies.requests import Plan, TaskRequest, Wave, Written
from podium.strategies.sample.sample import Sample
from podium.strategies.trees.lineage import PLANTED, Path, length, planted

__all__ = ["Tree"]


class Tree(Strategy):
    """`n` first segments of at most `window` tokens, each continued by `branches` segments, and so on; every leaf is a
    rollout.

    `branches` has one number per further depth. The segments of the last depth are sampled to their end; a segment that
    ends by itself earlier is a leaf.
    """

    reference = "SPO, https://github.com/AIFrameResearch/SPO"
    n: int = 6  # first segments of a task
    branches: tuple[int, ...] = (6, 6)  # children of each segment, by depth
    window: Count = 600  # tokens of a segment
    draw: Draw = Draw()

    provides = PLANTED

    def __post_init__(self) -> None:
        within(self, "n", 1)
        within(self, "window", 1)
        if any(width < 1 for width in self.branches):
            raise PodiumError(f"Tree.branches = {self.branches!r}: every segment must be continued at least once.")

    @property
    def neutral(self) -> Sample:
        return Sample(n=math.prod((self.n, *self.branches)), draw=self.draw)

    def acted(self, rollouts: Sequence[Any]) -> int:
        return sum(rollout.columns["fork"] > 0 for rollout in rollouts)

    def plan(self, task: TaskRequest) -> Plan:
        widths = (self.n, *self.branches)
        leaves: list[tuple[Rollout, Path]] = []
        unfinished: list[tuple[Rollout | None, Path]] = [(None, [])]
        for depth, width in enumerate(widths):
            window = self.window if depth + 1 < len(widths) else None
            play = self.draw.play(task, width, keep=True, wave=depth, window=window)
            wave: Wave = []
            for number, (rollout, _) in enumerate(unfinished):
                begun = None if rollout is None else Written.of(rollout.turns[0])
                wave.append(dataclasses.replace(play, begun=begun, first=number * width))
            answers = yield wave
            grown: list[tuple[Rollout | None, Path]] = []
            for number, ((rollout, path), answer) in enumerate(zip(unfinished, answers, strict=True)):
                before = 0 if rollout is None else length(rollout)
                for child, continued in enumerate(answer):
                    assert isinstance(continued, Rollout)
                    name: Hashable = (depth, number, child)
                    size = length(continued) - before
                    longer = [*path, (name, size)] if size > 0 else path
                    ended = bool(continued.columns.get("finished", True))
                    (leaves if ended else grown).append((continued, longer))
            unfinished = grown
            if not unfinished:
                break
        return planted([_whole(r) for r, _ in leaves], [path for _, path in leaves])


def _whole(rollout: Rollout) -> Rollout:
    """A finished rollout without the columns of the windows that it was sampled in."""
    turns = [dataclasses.replace(t, tokens={k: v for k, v in t.tokens.items() if k != "new"}) for t in rollout.turns]
    columns = {k: v for k, v in rollout.columns.items() if k != "finished"}
    return dataclasses.replace(rollout, turns=turns, columns=columns)
