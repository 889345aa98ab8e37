"""Rollouts of policies that draw, with the steps of each picture scored on request."""

from __future__ import annotations

import dataclasses
from collections.abc import Generator, Sequence
from itertools import accumulate, pairwise
from typing import Any

from podium.core.build import Rollout
from podium.core.errors import one_of, within
from podium.core.part import Need, Strategy
from podium.core.signal import Signal
from podium.strategies.draw import Draw
from podium.strategies.requests import Plan, Rate, TaskRequest, Wave, rollouts_of

__all__ = ["DrawPictures"]


class DrawPictures(Strategy):
    """`n` pictures of each task. Every stochastic step of a flow is a token.

    `scored` lets the world rate a picture for every step. `estimate`: the one that the velocity after the step points
    to. `finished`: the one that comes of all later steps if they are deterministic; then `rollout.score` is that of the
    picture all of whose steps are. `token.score` is the score after each step, after the last one the reward.
    """

    reference = "Flow-GRPO, https://github.com/yifan123/flow_grpo"
    n: int = 24
    scored: str = ""  # empty, estimate or finished
    draw: Draw = Draw()

    def __post_init__(self) -> None:
        within(self, "n", 1)
        one_of(self, "scored", ("", "estimate", "finished"))

    @property
    def needs(self) -> tuple[Need, ...]:
        return ("task.drawing", *(("task.rate", Signal(self.scored, of="sampler")) if self.scored else ()))

    @property
    def provides(self) -> tuple[str, ...]:
        scores = {"": (), "estimate": ("token.score",), "finished": ("token.score", "rollout.score")}
        return ("token.sampler.std", *scores[self.scored])

    @property
    def neutral(self) -> DrawPictures:
        return self.replace(scored="")

    def plan(self, task: TaskRequest) -> Plan:
        rollouts = rollouts_of((yield [self.draw.play(task, self.n)]))
        if not self.scored:
            return rollouts
        return (yield from self._with_scores(task, rollouts))

    def _with_scores(self, task: TaskRequest, rollouts: Sequence[Rollout]) -> Generator[Wave, Any, list[Rollout]]:
        """The rollouts with the scores of their steps in place of the pictures."""
        name = f"sampler.{self.scored}"
        pictures = [rollout.turns[0].tokens[name] for rollout in rollouts]
        # What comes of the last step is the picture itself, whose reward is known.
        asked = [texts[:-1] if self.scored == "estimate" else texts for texts in pictures]
        wave: Wave = [Rate(task, str(text)) for texts in asked for text in texts]
        found = (yield wave) if wave else []
        scores = [answer[0].scores[0] for answer in found]
        ends = list(accumulate((len(texts) for texts in asked), initial=0))
        return [self._scored(r, scores[a:b]) for r, (a, b) in zip(rollouts, pairwise(ends), strict=True)]

    def _scored(self, rollout: Rollout, scores: Sequence[float]) -> Rollout:
        (turn,) = rollout.turns
        reward = float(rollout.columns["reward"])
        columns = dict(rollout.columns)
        if self.scored == "finished":
            columns["score"], scores = float(scores[0]), scores[1:]
        tokens = {k: v for k, v in turn.tokens.items() if k != f"sampler.{self.scored}"}
        tokens["score"] = [*map(float, scores), reward]
        return dataclasses.replace(rollout, turns=[dataclasses.replace(turn, tokens=tokens)], columns=columns)
