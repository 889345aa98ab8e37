"""The plain strategy: n independent rollouts of each task."""

from __future__ import annotations

import dataclasses
from typing import Any

from podium.core.columns import Purpose
from podium.core.errors import one_of, within
from podium.core.part import Need, Strategy
from podium.core.schedule import Number
from podium.protocols.context import Context
from podium.protocols.sampling import Sampling, Warmth
from podium.strategies.requests import Plan, Play, Recite, TaskRequest, Wave

__all__ = ["Sample"]


class Sample(Strategy):
    """`n` rollouts of each task; if asked, a greedy one of purpose `baseline`, and solutions as demonstrations."""

    n: int = 8
    temperature: Number = 1.0
    top_p: Number = 1.0
    top_k: int = 0  # likeliest tokens; 0: all
    greedy_baseline: bool = False
    trained: int | None = None  # so many are trained, the others only vote; None: all
    demonstrations: tuple[str, ...] = ()  # the styles in which the world writes solutions; each is a rollout
    demonstrate_as: str = "demo"  # demo: trained, not in statistics; train: both; baseline: neither
    warmth: Warmth | None = None  # a temperature that follows the entropy of each step
    max_turns: int | None = None  # of an episode; default: the world's
    room: Number = 1.0  # the share of the run's limit of tokens that a turn may take
    context: Context | None = None  # what each turn is written after: Full(), Window(2), …; default: the world's
    train_context: Context | None = None  # what it is trained after; default: the same

    def __post_init__(self) -> None:
        within(self, "n", 1)
        within(self, "trained", 1, self.n, optional=True)
        within(self, "max_turns", 1, optional=True)
        within(self, "temperature", 0, open_low=True)
        one_of(self, "demonstrate_as", ("demo", "train", "baseline"))
        within(self, "top_p", 0, 1, open_low=True)
        within(self, "top_k", 0)
        within(self, "room", 0, 1, open_low=True)

    @property
    def provides(self) -> tuple[str, ...]:
        marked = ("rollout.purpose", "rollout.demonstration", "rollout.sampled")
        return marked if self.demonstrations else marked[:1] if self.greedy_baseline else ()

    @property
    def needs(self) -> tuple[Need, ...]:
        return ("task.solution",) if self.demonstrations else ()

    def sampling(self, default: Sampling) -> Sampling:
        """How tokens are drawn: this strategy's distribution with the run's limits."""
        drawn = {"temperature": self.temperature, "top_p": self.top_p, "top_k": self.top_k, "warmth": self.warmth}
        return dataclasses.replace(default, **drawn, max_tokens=max(int(self.room * default.max_tokens), 1))

    def plan(self, task: TaskRequest) -> Plan:
        sampling = self.sampling(task.sampling)
        trained = self.n if self.trained is None else self.trained
        # Where some rollouts are demonstrations, each says whether it is one.
        columns = {"demonstration": False, "sampled": True} if self.demonstrations else {}
        seen: dict[str, Any] = {"context": self.context, "train_context": self.train_context}
        play = Play(task, trained, sampling, columns=columns, max_turns=self.max_turns, **seen)
        wave: Wave = [play]
        if trained < self.n:
            wave.append(dataclasses.replace(play, n=self.n - trained, purpose=Purpose.vote, first=trained))
        if self.greedy_baseline:
            greedy = dataclasses.replace(sampling, temperature=0.0, top_p=1.0)
            wave.append(dataclasses.replace(play, n=1, sampling=greedy, purpose=Purpose.baseline, first=self.n))
        purpose = Purpose[self.demonstrate_as]
        for number, style in enumerate(self.demonstrations, start=self.n + self.greedy_baseline):
            columns = {"demonstration": True, "sampled": False}
            wave.append(Recite(task, style=style, purpose=purpose, index=number, columns=columns, **seen))
        answers = yield wave
        return [rollout for answer in answers for rollout in answer]  # type: ignore[misc]
