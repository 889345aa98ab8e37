"""The collection driver: runs the plans of all groups at once over one sampler and one world.

Each plan yields waves of requests. The driver turns them into work for the sampler and the world, and resumes a plan
when its wave is answered. An episode that waits for its world never holds up the others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

from torch import Tensor

from podium.core.build import Rollout, Turn
from podium.core.errors import PodiumError
from podium.rollout.plan import Continue, Interrupt, Plan, Play, Recite, Replay, Score
from podium.sampler.request import Completion, Generate, Sampler, Stop
from podium.sampler.streams import key
from podium.training.acting import Actor
from podium.training.interrupt import interrupt
from podium.worlds.world import Answer as OneTurn
from podium.worlds.world import Episode, Feedback, World

__all__ = ["Driver"]

Answer = list[Any]


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
        max_turns: int = 50,
    ) -> None:
        self.sampler, self.world = sampler, world
        self.capture, self.max_turns = capture, max_turns
        self.actor = Actor(act_limit_s, inline=world.trusted)
        self.context_length: float = getattr(sampler, "context_length", math.inf)
        self._follow_up, self._written, self._ends, self._score = follow_up, written, ends, score
        self._waiting: dict[int, Callable[[list[Completion]], None]] = {}

    def collect(self, plans: Sequence[Plan]) -> list[list[Rollout]]:
        """Run the plans to their ends; one list of rollouts a plan, in the order of the plans."""
        results: list[list[Rollout] | None] = [None] * len(plans)
        for number, plan in enumerate(plans):
            self._advance(number, plan, None, results)
        while self._waiting or self.actor.busy:
            for ticket, completions in self.sampler.poll() if self._waiting else []:
                self._waiting.pop(ticket)(completions)
            self.actor.deliver(block=not self._waiting)
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
                _Episodes(self, request, receiver(place)).start()
            elif isinstance(request, Continue):
                _Continuation(self, request, receiver(place)).start()
            elif isinstance(request, Recite):
                _Recital(self, request, receiver(place)).start()
            elif isinstance(request, Replay):
                receiver(place)([self._same_tokens(request.rollout)])
            elif isinstance(request, Interrupt):
                interrupt(self, request, receiver(place))
            elif isinstance(request, Score):
                receiver(place)(self.score(request))
            else:
                self._submit(request, receiver(place))

    def _submit(self, request: Generate, then: Callable[[list[Completion]], None]) -> None:
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


@dataclass
class _Running:
    """One episode under way."""

    index: int
    episode: Episode
    context: tuple[int, ...]
    turns: list[Turn] = field(default_factory=list)
    reward: float = 0.0
    info: dict[str, Any] = field(default_factory=dict)
    stop: str = ""
    failure: str = ""
    texts: list[str] = field(default_factory=list)
    done: bool = False


class _Episodes:
    """The n episodes of a `Play`, turn by turn."""

    def __init__(self, driver: Driver, play: Play, then: Callable[[list[Rollout]], None]) -> None:
        self.driver, self.play, self.then = driver, play, then
        self.running = []
        encoded: dict[str, tuple[int, ...]] = {}
        for index in range(play.first, play.first + play.n):
            episode = self.opened(index)
            said = episode.observation
            if said not in encoded:
                encoded[said] = driver.sampler.encode([{"role": "user", "content": said}])
            self.running.append(_Running(index, episode, encoded[said]))
        self.max_turns = driver.max_turns

    def opened(self, index: int) -> Episode:
        """An episode of the task. All begin at the same start, but what chance does in it is each one's own."""
        request = self.play.request
        seed = key(0, (*request.stream, self.play.wave, index)) % 2**31
        return self.driver.actor.open(self.driver.world, request.task, seed)

    def start(self) -> None:
        # Those that start from the same context are one request: the prompt is encoded once.
        for _, rows in groupby(list(self.running), lambda row: row.context):
            self._write(list(rows), turn=0)

    def _write(self, rows: list[_Running], turn: int) -> None:
        play = self.play
        request = Generate(
            rows[0].context,
            n=len(rows),
            sampling=play.sampling or play.request.sampling,
            stream=(*play.request.stream, play.wave, turn),
            first=rows[0].index,
            capture=self.driver.capture,
            keep=not isinstance(self.driver.world, OneTurn),  # nobody goes on from an answer
        )

        def written(completions: list[Completion]) -> None:
            for row, completion in zip(rows, completions, strict=True):
                self._act(row, completion, turn)

        self.driver._submit(request, written)

    def _act(self, row: _Running, completion: Completion, turn: int) -> None:
        text = self.driver.sampler.text(completion.ids)
        row.texts.append(text)
        state = row.episode.state

        def acted(feedback: Feedback, failure: str) -> None:
            self._take(row, completion, turn, state, text, feedback, failure)

        self.driver.actor.act(row.episode, text, acted)

    def _take(
        self, row: _Running, completion: Completion, turn: int, state: str, text: str, feedback: Feedback, failure: str
    ) -> None:
        """Record a turn, and go on or end."""
        row.reward += feedback.reward
        row.info.update(feedback.info)
        row.stop, row.failure = completion.stop.value, failure or row.failure
        tokens = {f"sampler.{name}": values for name, values in completion.captured.items()}
        row.turns.append(
            Turn(
                ids=completion.ids,
                context=row.context,
                columns={
                    "reward": float(feedback.reward),
                    "state": state,
                    "next_state": feedback.state,
                    "action": text,
                },
                origin=self.origins(completion),
                tokens={"sampler.logp": completion.logp, **tokens},
            )
        )
        if feedback.done or turn + 1 >= self.max_turns or completion.stop is Stop.context:
            self._end(row)
            return
        between = self.driver.follow_up(feedback.observation, completion.stop is Stop.end)
        row.context = (*row.context, *completion.ids, *between)
        if len(row.context) >= self.driver.context_length:
            row.stop = Stop.context.value
            self._end(row)
            return
        self._write([row], turn + 1)

    def _end(self, row: _Running) -> None:
        row.done = True
        if all(r.done for r in self.running):
            self.then([self._rollout(r) for r in self.running])

    def origins(self, completion: Completion) -> list[str] | None:
        """Who wrote each token; None: the policy."""
        return None

    def _rollout(self, row: _Running) -> Rollout:
        request = self.play.request
        columns = {
            "reward": float(row.reward),
            "correct": bool(row.info.get("correct", False)),
            "answer": str(row.info.get("answer", "")),
            "truncated": row.stop in (Stop.length.value, Stop.context.value),
            "stop": row.stop,
            "failure": row.failure,
            "text": "\n".join(row.texts),
            "prompt": request.task.prompt,
            "level": request.task.level,
            "domain": request.task.domain,
            "purpose": int(self.play.purpose),
            "index": row.index,
        }
        extra = {c.partition(".")[2] for c in self.driver.world.provides if c.startswith("rollout.")} - set(columns)
        columns |= {name: row.info.get(name) for name in extra} | self.play.columns
        return Rollout(task=request.task.key, group=request.group, turns=row.turns, columns=columns)


class _Recital(_Episodes):
    """An episode whose turns are given texts."""

    def __init__(self, driver: Driver, recite: Recite, then: Callable[[list[Rollout]], None]) -> None:
        request, self.episode = recite.request, recite.episode
        play = Play(request, purpose=recite.purpose, first=recite.index, columns=recite.columns)
        super().__init__(driver, play, then)
        solution = recite.texts or (driver.world.solve(request.task, recite.style, seed=request.group),)
        self.texts, self.origin = solution, recite.origin.name
        self.max_turns = min(driver.max_turns, len(solution))

    def _write(self, rows: list[_Running], turn: int) -> None:
        ids = self.driver.written(self.texts[turn])
        length, room = len(rows[0].context) + len(ids), self.driver.context_length
        if length > room:
            raise PodiumError(
                f"The text given for {self.play.request.task.key!r} has {length} tokens with its prompt, more than the "
                f"{room:g} of the model's context. Leave it out or shorten it."
            )
        nothing = (0.0,) * len(ids)  # nobody drew these tokens
        completion = Completion(ids, nothing, Stop.end, dict.fromkeys(self.driver.capture, nothing))
        for row in rows:
            self._act(row, completion, turn)

    def opened(self, index: int) -> Episode:
        return super().opened(index) if self.episode is None else self.episode

    def origins(self, completion: Completion) -> list[str]:
        return [self.origin] * len(completion.ids)


class _Continuation(_Episodes):
    """An episode of one turn that is written in windows: it meets its world when the turn has ended."""

    def __init__(self, driver: Driver, asked: Continue, then: Callable[[list[Rollout]], None]) -> None:
        if not isinstance(driver.world, OneTurn):
            raise PodiumError(
                f"Rollouts of the world {driver.world.name!r} have several turns: what is written in windows goes on "
                "in later iterations, which episodes cannot. Take a world of single answers, or another strategy."
            )
        super().__init__(driver, Play(asked.request, sampling=asked.sampling, first=asked.index), then)
        self.begun, self.window, self.finished = asked.begun, asked.window, True

    def _write(self, rows: list[_Running], turn: int) -> None:
        (row,), begun = rows, self.begun
        sampling = self.play.sampling or self.play.request.sampling
        left = sampling.max_tokens - len(begun.ids)
        request = Generate(
            row.context,
            sampling=replace(sampling, max_tokens=min(self.window, left)),
            stream=(*self.play.request.stream, self.play.wave, turn),
            first=row.index,
            prefix=begun.ids,
            capture=self.driver.capture,
            keep=False,  # other weights go on from here
        )

        def written(completions: list[Completion]) -> None:
            (new,) = completions
            known = {"entropy": begun.entropy}
            captured = {n: (*known.get(n, (0.0,) * len(begun.ids)), *x) for n, x in new.captured.items()}
            whole = Completion((*begun.ids, *new.ids), (*begun.logp, *new.logp), new.stop, captured)
            self.finished = new.stop is not Stop.length or len(whole.ids) >= sampling.max_tokens
            if self.finished:
                self._act(row, whole, turn)
            else:
                text = self.driver.sampler.text(whole.ids)
                row.texts.append(text)
                self._take(row, whole, turn, row.episode.state, text, Feedback(), "")

        self.driver._submit(request, written)

    def origins(self, completion: Completion) -> list[str]:
        old = len(self.begun.ids)
        return ["copied"] * old + ["policy"] * (len(completion.ids) - old)

    def _rollout(self, row: _Running) -> Rollout:
        made = super()._rollout(row)
        (turn,), old = made.turns, len(self.begun.ids)
        marked = replace(turn, tokens={**turn.tokens, "new": [place >= old for place in range(len(turn.ids))]})
        return replace(made, turns=[marked], columns={**made.columns, "finished": self.finished})
