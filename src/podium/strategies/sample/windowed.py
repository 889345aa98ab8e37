"""Windowed rollouts: each iteration samples a bounded piece of every rollout, and the next one continues it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

from podium.core.errors import within
from podium.core.facts import RunFacts
from podium.core.part import Strategy
from podium.core.schedule import Count
from podium.strategies.draw import Draw
from podium.strategies.requests import Plan, TaskRequest, Wave, Written, rollouts_of

__all__ = ["Windowed"]


class Windowed(Strategy):
    """At most `window` new tokens of each rollout: of `n` new rollouts of a task, or of its unfinished ones.

    `token.new` marks the tokens that this iteration sampled; `rollout.finished` says whether the rollout has ended, by
    itself or at the run's token limit. An unfinished rollout has no outcome yet, and waits in the memory `InFlight`.
    """

    reference = "Truncated Proximal Policy Optimization (T-PPO)"
    n: int = 1
    window: Count = 8192  # tokens
    draw: Draw = Draw()

    needs = ("group.in_flight",)
    provides = ("rollout.finished", "token.new")

    def __post_init__(self) -> None:
        within(self, "n", 1)
        within(self, "window", 1)

    @property
    def neutral(self) -> Windowed:
        return self.replace(window=1 << 30)

    def inert(self, facts: RunFacts) -> Iterable[str]:
        if self.window >= facts.max_tokens:
            yield (
                f"cuts no rollout: its window of {self.window} tokens holds a whole answer of at most "
                f"{facts.max_tokens}. Set rollout.window={max(facts.max_tokens // 3, 1)}."
            )

    def acted(self, rollouts: Sequence[Any]) -> int:
        return sum(not rollout.columns["finished"] for rollout in rollouts)

    def plan(self, task: TaskRequest) -> Plan:
        unfinished = task.recalled.get("group.in_flight", ())
        beginnings = [Written(ids, logp, {"entropy": entropy}) for ids, logp, entropy in unfinished]
        play = self.draw.play(task, window=self.window)
        wave: Wave = [
            dataclasses.replace(play, first=i, begun=begun)
            for i, begun in enumerate(beginnings or [Written()] * self.n)
        ]
        return rollouts_of((yield wave))
