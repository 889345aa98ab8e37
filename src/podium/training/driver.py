"""The collection driver: runs the plans of all groups at once over one sampler and one world.

Each plan yields waves of requests. The driver turns them into work for the sampler and the world, and resumes a plan
when its wave is answered. An episode that waits for its world never holds up the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from podium.core.build import Rollout, Turn
from podium.core.errors import PodiumError
from podium.rollout.plan import Plan, Play
from podium.sampler.request import Completion, Generate, Sampler, Stop
from podium.training.acting import Actor
from podium.worlds.world import Answer as OneTurn
from podium.worlds.world import Episode, Feedback, World

__all__ = ["Driver"]

Answer = list[Any]


class Driver:
    """Collects rollouts. `follow_up` turns an observation into the tokens between two turns of the model."""

    def __init__(
        self,
        sampler: Sampler,
        world: World,
        *,
        capture: tuple[str, ...] = ("entropy",),
        follow_up: Callable[[str, bool], tuple[int, ...]] | None = None,
        act_limit_s: float = 10.0,
        max_turns: int = 50,
    ) -> None:
        self.sampler, self.world = sampler, world
        self.capture, self.max_turns = capture, max_turns
        self.actor = Actor(act_limit_s, inline=world.trusted)
        self._follow_up = follow_up
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
            else:
                self._submit(request, receiver(place))

    def _submit(self, request: Generate, then: Callable[[list[Completion]], None]) -> None:
        self._waiting[self.sampler.submit(request)] = then

    def follow_up(self, observation: str, ended: bool) -> tuple[int, ...]:
        """What stands between two turns; `ended`: the model has closed its turn itself."""
        if self._follow_up is None:
            raise PodiumError(
                f"The world {self.world.name!r} has several turns, but there is no way to encode a follow-up."
            )
        return self._follow_up(observation, ended)


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
        task = play.request.task
        sampler = driver.sampler
        episodes = [driver.world.reset(task, seed=play.request.group) for _ in range(play.n)]
        context = sampler.encode([{"role": "user", "content": episodes[0].observation}])
        self.running = [_Running(play.first + i, e, context) for i, e in enumerate(episodes)]

    def start(self) -> None:
        # All start from the same context, so they are one request: the prompt is encoded once.
        self._write(self.running, turn=0)

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
                tokens={"sampler.logp": completion.logp, **tokens},
            )
        )
        last = feedback.done or turn + 1 >= self.driver.max_turns or completion.stop is Stop.context
        if last:
            row.done = True
            if all(r.done for r in self.running):
                self.then([self._rollout(r) for r in self.running])
            return
        row.context = (
            *row.context,
            *completion.ids,
            *self.driver.follow_up(feedback.observation, completion.stop is Stop.end),
        )
        self._write([row], turn + 1)

    def _rollout(self, row: _Running) -> Rollout:
        request = self.play.request
        columns = {
            "reward": float(row.reward),
            "correct": bool(row.info.get("correct", False)),
            "answer": str(row.info.get("answer", "")),
            "truncated": row.stop == Stop.length.value,
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
