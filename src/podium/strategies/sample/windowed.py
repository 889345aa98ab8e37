"""Windows: each iteration writes a bounded piece of every rollout, and what is not finished goes on in the next one."""

from __future__ import annotations

import dataclasses

from podium.core.errors import within
from podium.core.part import Strategy
from podium.core.schedule import Number
from podium.strategies.requests import Plan, Play, TaskRequest, Wave, Written

__all__ = ["Windowed"]


class Windowed(Strategy):
    """At most `window` new tokens of each rollout: `n` new ones of a task, or those of it that are not finished.

    `token.new` says which tokens this iteration wrote, `rollout.finished` whether the rollout has ended, by itself or
    at the run's limit. What is not finished has no outcome, and waits in `InFlight`.
    """

    reference = "Truncated Proximal Policy Optimization (T-PPO)"
    n: int = 1
    window: int = 8192  # tokens
    temperature: Number = 1.0
    top_p: Number = 1.0

    needs = ("group.in_flight",)
    provides = ("rollout.finished", "token.new")

    def __post_init__(self) -> None:
        within(self, "n", 1)
        within(self, "window", 1)
        within(self, "temperature", 0, open_low=True)
        within(self, "top_p", 0, 1, open_low=True)

    def plan(self, task: TaskRequest) -> Plan:
        sampling = dataclasses.replace(task.sampling, temperature=self.temperature, top_p=self.top_p)
        pieces = task.known.get("group.in_flight", ())
        begun = [Written(ids, logp, {"entropy": entropy}) for ids, logp, entropy in pieces] or [Written()] * self.n
        play = Play(task, sampling=sampling, window=self.window)
        wave: Wave = [dataclasses.replace(play, first=i, begun=piece) for i, piece in enumerate(begun)]
        answers = yield wave
        return [rollout for answer in answers for rollout in answer]  # type: ignore[misc]
