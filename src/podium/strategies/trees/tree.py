"""Trees of fixed depth: every piece of text is continued in several ways."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable

from podium.core.build import Rollout
from podium.core.errors import PodiumError, within
from podium.strategies.requests import Plan, TaskRequest, Wave, Written
from podium.strategies.trees.fork import Forked
from podium.strategies.trees.lineage import Path, length, planted

__all__ = ["Tree"]


class Tree(Forked):
    """`n` beginnings of at most `window` tokens, each continued by as many more as `branches` says, and so on; the last
    ones are written to their ends. What ends by itself earlier is a leaf. Each leaf is a rollout."""

    reference = "SPO, https://github.com/AIFrameResearch/SPO"
    n: int = 6  # children of the task
    branches: tuple[int, ...] = (6, 6)  # children of each of them, of their children, …
    window: int = 600  # tokens of a segment

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, "window", 1)
        if any(width < 1 for width in self.branches):
            raise PodiumError(f"Tree.branches = {self.branches!r}: every segment must be continued at least once.")

    def plan(self, task: TaskRequest) -> Plan:
        widths = (self.n, *self.branches)
        leaves: list[tuple[Rollout, Path]] = []
        open_: list[tuple[Rollout | None, Path]] = [(None, [])]
        for depth, width in enumerate(widths):
            play = self.play(task, n=width, wave=depth, window=self.window if depth + 1 < len(widths) else None)
            wave: Wave = []
            for number, (rollout, _) in enumerate(open_):
                begun = None if rollout is None else Written.of(rollout.turns[0])
                wave.append(dataclasses.replace(play, begun=begun, first=number * width))
            answers = yield wave
            grown: list[tuple[Rollout | None, Path]] = []
            for number, ((rollout, path), answer) in enumerate(zip(open_, answers, strict=True)):
                before = 0 if rollout is None else length(rollout)
                for child, made in enumerate(answer):
                    assert isinstance(made, Rollout)
                    name: Hashable = (depth, number, child)
                    new = [*path, (name, length(made) - before)] if length(made) > before else path
                    ended = bool(made.columns.get("finished", True))
                    (leaves if ended else grown).append((made, new))
            open_ = grown
            if not open_:
                break
        return planted([_whole(r) for r, _ in leaves], [path for _, path in leaves])


def _whole(rollout: Rollout) -> Rollout:
    """A finished rollout without the marks of the windows that it was written in."""
    turns = [dataclasses.replace(t, tokens={k: v for k, v in t.tokens.items() if k != "new"}) for t in rollout.turns]
    columns = {k: v for k, v in rollout.columns.items() if k != "finished"}
    return dataclasses.replace(rollout, turns=turns, columns=columns)
