"""Playing episodes: each writes a turn, acts in its world, and continues or ends with a stated reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any

from podium.collect.episode_state import EpisodeState
from podium.collect.prefix import NO_PREFIX, join_prefix, prefix_completion
from podium.core.build import Rollout, Turn
from podium.core.columns import Origin
from podium.core.errors import PodiumError
from podium.core.streams import key
from podium.protocols.context import Context, Wrote
from podium.protocols.format import ReadTurn
from podium.protocols.sampling import Completion, Generate, Stop
from podium.protocols.seats import SCRIPTED, Player
from podium.protocols.world import Answer as OneTurn
from podium.protocols.world import Episode, Feedback
from podium.protocols.world_problems import unknown_agent
from podium.strategies.requests import Play

if TYPE_CHECKING:
    from podium.collect.driver import Driver

__all__ = ["Episodes"]

# Why a rollout ended, in addition to why its last completion did (`Stop`).
TURNS = "turns"  # it reached the limit of turns
FAILED = "failed"  # the world failed: `failure` says how
TRUNCATED = (Stop.length.value, Stop.context.value, TURNS)  # a limit ended it


class Episodes:
    """The n episodes of a `Play`, turn by turn."""

    def __init__(self, driver: Driver, play: Play, then: Callable[[list[Rollout]], None]) -> None:
        self.driver, self.play, self.then = driver, play, then
        self.states: dict[int, EpisodeState] = {}  # by index
        self.max_turns = driver.max_turns if play.max_turns is None else play.max_turns
        self.format = play.request.format
        self.seats = {seat.agent: seat for seat in play.seats}
        self.context: Context = driver.world.context if play.context is None else play.context
        self.prefixed_turn = 0  # the turn that begins with a prefix, if the request has one
        self.no_room = False  # the strategy's context leaves no room to answer
        if play.window is not None and not isinstance(driver.world, OneTurn):
            raise PodiumError(
                f"Rollouts of the world {driver.world.name!r} have several turns: what is written in windows goes on "
                "later, which episodes cannot. Take a world of single answers, or another strategy."
            )
        # Episodes that open at once start together, so that the prompt that they share is encoded once.
        self.start_together = (driver.inline or isinstance(driver.world, OneTurn)) and driver.world.live is None

    def start(self) -> None:
        for index in range(self.play.first, self.play.first + self.play.n):
            self._open(index)

    def _open(self, index: int) -> None:
        self.driver.actor.open(self.driver.world, self.play.request.task, self.seed(index), partial(self._begin, index))

    def seed(self, index: int) -> int:
        """The seed of an episode: those of a task start alike, but their random events differ."""
        return key(0, (*self.play.request.stream, self.play.wave, index)) % 2**31

    def _begin(self, index: int, episode: Episode) -> None:
        opened, episode = episode, self._wrapped(episode)
        row = self.states[index] = EpisodeState(index, episode, opened, episode.state)
        row.observe(episode.observation)
        row.context = self._messages(self.context, row)
        if self.play.context is not None and len(row.context) >= self.driver.context_length:
            self.no_room = True
        if self.no_room:
            self.driver.actor.leave(opened)
            if len(self.states) == self.play.n:
                self.then([])
            return
        if len(row.context) >= self.driver.context_length and not isinstance(self.driver.world, OneTurn):
            empty = Completion((), (), Stop.context, dict.fromkeys(self.driver.capture, ()))
            self._record(row, empty, "", self._reading(""), Feedback())
            self._end(row, Stop.context.value)
        elif not self.start_together:
            self._write([row], turn=0)
        if self.start_together and len(self.states) == self.play.n:
            for _, rows in groupby((r for r in self._rows() if not r.done), lambda r: (r.agent, r.context)):
                self._write(list(rows), turn=0)

    def _wrapped(self, episode: Episode) -> Episode:
        """The episode as the strategy, or else the format, lets the model play it."""
        if self.play.wrap is not None:
            return self.play.wrap(episode)
        return episode if self.format is None else self.format.wrap(episode)

    def _messages(self, context: Context, row: EpisodeState) -> tuple[int, ...]:
        """The tokens that the next turn comes after, in a context, with the format's instruction."""
        history = row.history if self.format is None else self.format.asked(row.history)
        return self.driver.messages(context(history))

    def _reading(self, text: str) -> ReadTurn:
        """What the world gets of the text of a turn."""
        return ReadTurn(text) if self.format is None else self.format.read(text)

    def _rows(self) -> list[EpisodeState]:
        return [self.states[index] for index in sorted(self.states)]

    def _write(self, rows: list[EpisodeState], turn: int) -> None:
        by = self.seats[rows[0].agent].by if rows[0].agent in self.seats else self.play.role
        if isinstance(by, str):
            copies = self.driver.copies(by)  # past selves: one of them plays all episodes of a group
            self._sample(rows, turn, copies[key(2, self.play.request.stream) % len(copies)])
        else:
            for row in rows:
                self._play_scripted(row, turn, by)

    def _play_scripted(self, row: EpisodeState, turn: int, player: Player) -> None:
        """Let a player that is no model write a turn."""
        text = player(row.history, key(1, (*self.play.request.stream, self.play.wave, row.index, turn)) % 2**31)
        ids = self.driver.written(text)
        zeros = (0.0,) * len(ids)
        row.prefix_length = 0
        self._act(row, Completion(ids, zeros, Stop.end, dict.fromkeys(self.driver.capture, zeros)), turn)

    def _sample(self, rows: list[EpisodeState], turn: int, role: str) -> None:
        play, sampling = self.play, self.play.sampling or self.play.request.sampling
        prefix = self._prefix(rows[0].context, turn)
        left = sampling.max_tokens - len(prefix.ids)
        window = left if play.window is None else min(play.window, left)
        for row in rows:
            row.prefix_length = len(prefix.ids)
        if left < 1 or prefix.stop is not Stop.length:  # nothing can follow
            for row in rows:
                self._act(row, prefix, turn)
            return
        request = Generate(
            rows[0].context,
            n=len(rows),
            sampling=sampling if window == sampling.max_tokens else replace(sampling, max_tokens=window),
            stream=(*play.request.stream, play.wave, turn),
            first=rows[0].index,
            prefix=prefix.ids,
            capture=self.driver.capture,
            keep=play.keep or not isinstance(self.driver.world, OneTurn),  # an answer has no continuation
        )

        def written(completions: list[Completion]) -> None:
            for row, sampled in zip(rows, completions, strict=True):
                whole = join_prefix(prefix, sampled)
                row.finished = sampled.stop is not Stop.length or len(whole.ids) >= sampling.max_tokens
                if row.finished:
                    self._act(row, whole, turn)
                else:
                    self._pause(row, whole, turn)

        self.driver.submit(request, written, role)

    def _prefix(self, context: tuple[int, ...], turn: int) -> Completion:
        """The tokens of a turn that are given before the rest is sampled."""
        if turn != self.prefixed_turn or self.play.begun is None:
            return NO_PREFIX
        return prefix_completion(self.driver, self.play.begun, context, self.play.request.task.key)

    def _pause(self, row: EpisodeState, completion: Completion, turn: int) -> None:
        """Record a turn that a window has stopped: its world does not see it yet."""
        text = self.driver.text(completion.ids, self.format)
        self._record_and_continue(row, completion, turn, text, self._reading(text), Feedback(), "")

    def _act(self, row: EpisodeState, completion: Completion, turn: int) -> None:
        text = self.driver.text(completion.ids, self.format) if completion.text is None else completion.text
        reading = self._reading(text)

        def acted(feedback: Feedback, failure: str) -> None:
            self._record_and_continue(row, completion, turn, text, reading, feedback, failure)

        place = (*self.play.request.stream, self.play.wave, row.index, turn)
        self.driver.actor.act(row.episode, reading.action, acted, place)

    def _record_and_continue(
        self,
        row: EpisodeState,
        completion: Completion,
        turn: int,
        text: str,
        reading: ReadTurn,
        feedback: Feedback,
        failure: str,
    ) -> None:
        """Record a turn, then write the next one or end the episode."""
        self._record(row, completion, text, reading, feedback)
        failure = failure or row.pay(self.driver.world, feedback.rewards)
        failure = failure or row.contradiction(self.driver.world, feedback)
        truncated = completion.stop.value in TRUNCATED
        if failure:
            row.failure = failure
            self._end(row, FAILED, truncated)
        elif feedback.done:
            self._end(row, completion.stop.value, truncated)
        elif turn + 1 >= self.max_turns:
            self._end(row, TURNS)
        elif completion.stop is Stop.context:
            self._end(row, Stop.context.value)
        else:
            self._next_turn(row, turn, feedback.observation)

    def _record(
        self, row: EpisodeState, completion: Completion, text: str, reading: ReadTurn, feedback: Feedback
    ) -> None:
        train_context = self.play.train_context
        tokens: dict[str, Any] = {"sampler.logp": completion.logp}
        tokens |= {f"sampler.{name}": values for name, values in completion.captured.items()}
        if self.play.window is not None:
            tokens["new"] = _after_prefix(row, completion)
        if self.play.begun is not None and not self.play.begun.trained:
            tokens["keep.begun"] = _after_prefix(row, completion)
        tokens |= self.marks(row, completion)
        turn = Turn(
            ids=completion.ids,
            context=row.context,
            train_context=None if train_context is None else self._messages(train_context, row),
            columns=row.columns(self.driver.world, reading, self.format, feedback, self._role(row)),
            origin=self.origins(row, completion),
            tokens=tokens,
        )
        row.add(turn, Wrote(completion.ids, completion.stop is Stop.end), text, feedback)

    def _next_turn(self, row: EpisodeState, turn: int, observation: str) -> None:
        row.failure = unknown_agent(self.driver.world, row.episode.agent)
        if row.failure:
            self._end(row, FAILED)
            return
        row.observe(observation)
        row.context = self._messages(self.context, row)
        if len(row.context) >= self.driver.context_length:
            self._end(row, Stop.context.value)
            return
        self._write([row], turn + 1)

    def _end(self, row: EpisodeState, stop: str, truncated: bool = False) -> None:
        row.done, row.stop, row.truncated = True, stop, truncated or stop in TRUNCATED
        self.driver.actor.leave(row.opened)
        if len(self.states) == self.play.n and all(r.done for r in self.states.values()):
            self.then([r.rollout(self.play, self.driver.world, self.source) for r in self._rows()])

    def marks(self, row: EpisodeState, completion: Completion) -> dict[str, Any]:
        """Further values of the tokens of a turn."""
        return {}

    def origins(self, row: EpisodeState, completion: Completion) -> list[str] | None:
        """Who wrote each token; None: the policy wrote all. What a seat writes that is not trained is given."""
        seat = self.seats.get(row.agent)
        if seat is not None and seat.role not in self.driver.trained:
            return [Origin.given.name] * len(completion.ids)
        if self.play.begun is None:
            return None
        sampled = [Origin.policy.name] * (len(completion.ids) - row.prefix_length)
        return [self.play.begun.origin.name] * row.prefix_length + sampled

    def _role(self, row: EpisodeState) -> dict[str, Any]:
        """The columns that say who wrote a turn, in a world of several agents."""
        if not self.driver.world.agents:
            return {}
        role = self.seats[row.agent].role if row.agent in self.seats else self.play.role
        roles = (name for name in self.driver.samplers if "." not in name)  # a copy stands for its role
        return {"role": role} | {f"by.{name}": name == role for name in (*roles, SCRIPTED)}

    @property
    def source(self) -> str:
        """The origin of a rollout: the policy, or that of its prefix."""
        prefix = self.play.begun
        return Origin.policy.name if prefix is None or not (prefix.ids or prefix.text) else prefix.origin.name


def _after_prefix(row: EpisodeState, completion: Completion) -> list[bool]:
    """Which tokens of a turn were sampled after its prefix."""
    return [place >= row.prefix_length for place in range(len(completion.ids))]
