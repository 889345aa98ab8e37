"""The collection driver: runs the plans of all groups at once over one sampler and one world.

Each plan yields waves of requests. The driver turns them into work for the sampler and the world, and resumes a plan
when its wave is answered. An episode that waits for its world never holds up the others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from torch import Tensor

from podium.core.build import Rollout
from podium.core.errors import PodiumError
from podium.rollout.plan import Continue, Interrupt, Plan, Play, Recite, Replay, Resume, Score
from podium.sampler.request import Completion, Generate, Sampler
from podium.training.acting import Actor
from podium.training.episodes import Continuation, Episodes, Recital
from podium.training.interrupt import interrupt
from podium.training.resumption import Resumption
from podium.worlds.context import Message, Wrote
from podium.worlds.world import World

__all__ = ["Driver"]

Answer = list[Any]
SAYINGS = 4096  # encoded texts of the world that are kept


class Driver:
    """Collects rollouts.

    `follow_up` turns an observation into the tokens between two turns of the model, `written` a text into the tokens of
    a turn; `ends` says how many characters have been written after each token of one; `score` what the model makes of
    given texts.
    """

    def __init__(
        self,
        sampler: Sampler,
        world: World,
        *,
        capture: tuple[str, ...] = ("entropy",),
        follow_up: Callable[[str, bool], tuple[int, ...]] | None = None,
        written: Callable[[str, bool], tuple[int, ...]] | None = None,
        ends: Callable[[Sequence[int]], list[int]] | None = None,
        score: Callable[..., list[Tensor]] | None = None,
        act_limit_s: float = 10.0,
        max_turns: int | None = None,
    ) -> None:
        self.sampler, self.world = sampler, world
        self.capture, self.max_turns = capture, world.max_turns if max_turns is None else max_turns
        self.actor = Actor(act_limit_s, inline=world.trusted)
        self.context_length: float = getattr(sampler, "context_length", math.inf)
        self._follow_up, self._written, self._ends, self._score = follow_up, written, ends, score
        self._waiting: dict[int, Callable[[list[Completion]], None]] = {}
        # Worlds say the same things again and again.
        self._opening = lru_cache(SAYINGS)(lambda text: self.sampler.encode([{"role": "user", "content": text}]))
        self._between = lru_cache(SAYINGS)(self.follow_up)

    def collect(self, plans: Sequence[Plan]) -> list[list[Rollout]]:
        """Run the plans to their ends; one list of rollouts a plan, in the order of the plans."""
        results: list[list[Rollout] | None] = [None] * len(plans)
        for number, plan in enumerate(plans):
            self._advance(number, plan, None, results)
        try:
            while self._waiting or self.actor.busy:
                for ticket, completions in self.sampler.poll() if self._waiting else []:
                    self._waiting.pop(ticket)(completions)
                self.actor.deliver(block=not self._waiting)
        finally:
            self.actor.close()
        return [r for r in results if r is not None]

    def _advance(
        self, number: int, plan: Plan, answers: list[Answer] | None, results: list[list[Rollout] | None]
    ) -> None:
        """Resume a plan with the answers to its last wave and start its next one."""
        try:
            wave = next(plan) if answers is None else plan.send(answers)
        except StopIteration as end:
            results[number] = end.value
            return
        if not wave:
            raise PodiumError("A rollout strategy yielded an empty wave of requests.")
        open_answers: list[Answer | None] = [None] * len(wave)

        def receiver(place: int) -> Callable[[Answer], None]:
            def receive(answer: Answer) -> None:
                open_answers[place] = answer
                if all(a is not None for a in open_answers):
                    self._advance(number, plan, [a for a in open_answers if a is not None], results)

            return receive

        for place, request in enumerate(wave):
            if isinstance(request, Play):
                Episodes(self, request, receiver(place)).start()
            elif isinstance(request, Resume):
                Resumption(self, request, receiver(place)).start()
            elif isinstance(request, Continue):
                Continuation(self, request, receiver(place)).start()
            elif isinstance(request, Recite):
                Recital(self, request, receiver(place)).start()
            elif isinstance(request, Replay):
                receiver(place)([self._same_tokens(request.rollout)])
            elif isinstance(request, Interrupt):
                interrupt(self, request, receiver(place))
            elif isinstance(request, Score):
                receiver(place)(self.score(request))
            else:
                self.submit(request, receiver(place))

    def submit(self, request: Generate, then: Callable[[list[Completion]], None]) -> None:
        """Ask the sampler, and go on with what it answers."""
        self._waiting[self.sampler.submit(request)] = then

    def _same_tokens(self, rollout: Rollout) -> Rollout:
        """A recorded rollout, refused where its token ids mean another text to this model."""
        text = "\n".join(self.sampler.text(turn.ids) for turn in rollout.turns)
        if text != rollout.columns["text"]:
            raise PodiumError(
                f"The recorded rollout of {rollout.task} was written by a model with other tokens: its ids would read "
                f"{text[:60]!r} here. Train the model that it was recorded with, or one with the same tokenizer."
            )
        return rollout

    def messages(self, messages: Sequence[Message]) -> tuple[int, ...]:
        """What the model sees: its own turns token by token as it wrote them, and the world's texts around them."""
        ids, ended = self._opening(messages[0]), True
        for message in messages[1:]:
            if isinstance(message, Wrote):
                ids, ended = (*ids, *message.ids), message.ended
            else:
                ids = (*ids, *self._between(message, ended))
        return ids

    def follow_up(self, observation: str, ended: bool) -> tuple[int, ...]:
        """What stands between two turns; `ended`: the model has closed its turn itself."""
        if self._follow_up is None:
            raise PodiumError(
                f"The world {self.world.name!r} has several turns, but there is no way to encode a follow-up."
            )
        return self._follow_up(observation, ended)

    def written(self, text: str, ended: bool = True) -> tuple[int, ...]:
        """The tokens of a given text, as the model would have written it."""
        if self._written is None:
            raise PodiumError("A given text is to stand in a rollout, but there is no way to encode it.")
        return self._written(text, ended)

    def score(self, request: Score) -> list[float]:
        """What the model says of each token of a given text."""
        if self._score is None:
            raise PodiumError("A given text is to be scored, but there is no model to do it.")
        (values,) = self._score([request.context], [request.ids], name=request.name)
        numbers: list[float] = values.tolist()
        return numbers

    def ends(self, ids: Sequence[int]) -> list[int]:
        """How many characters have been written after each token."""
        if self._ends is None:
            raise PodiumError("A rollout is to be cut at what it says, but there is no way to find the place.")
        return self._ends(ids)
