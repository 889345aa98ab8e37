"""Episodes under way: each writes a turn, meets its world, and goes on or ends with a stated reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any

from podium.collect.acting import stranger
from podium.collect.episode_state import EpisodeState
from podium.collect.prefix import NOTHING, beginning, join_prefix
from podium.core.build import Rollout, Turn
from podium.core.columns import Origin
from podium.core.errors import PodiumError
from podium.core.streams import key
from podium.protocols.context import Context, Wrote
from podium.protocols.sampling import Completion, Generate, Stop
from podium.protocols.world import Answer as OneTurn
from podium.protocols.world import Episode, Feedback
from podium.strategies.requests import Play

if TYPE_CHECKING:
    from podium.collect.driver import Driver

__all__ = ["Episodes"]

# Why a rollout ended, where it was not its last completion (`Stop`) that did.
TURNS = "turns"  # it has had as many turns as it may
FAILED = "failed"  # the world failed: `failure` says how
CUT = (Stop.length.value, Stop.context.value, TURNS)  # a limit ended it


class Episodes:
    """The n episodes of a `Play`, turn by turn."""

    def __init__(self, driver: Driver, play: Play, then: Callable[[list[Rollout]], None]) -> None:
        self.driver, self.play, self.then = driver, play, then
        self.running: dict[int, EpisodeState] = {}  # by index
        self.max_turns = driver.max_turns if play.max_turns is None else play.max_turns
        self.context: Context = driver.world.context if play.context is None else play.context
        self.opens = 0  # the turn that is begun
        self.crowded = False  # its own context leaves no room to answer
        if play.window is not None and not isinstance(driver.world, OneTurn):
            raise PodiumError(
                f"Rollouts of the world {driver.world.name!r} have several turns: what is written in windows goes on "
                "later, which episodes cannot. Take a world of single answers, or another strategy."
            )
        # Episodes that open at once begin together: the prompt that they share is encoded once.
        self.together = (driver.world.trusted or isinstance(driver.world, OneTurn)) and driver.world.live is None

    def start(self) -> None:
        for index in range(self.play.first, self.play.first + self.play.n):
            self._open(index)

    def _open(self, index: int) -> None:
        self.driver.actor.open(self.driver.world, self.play.request.task, self.seed(index), partial(self._begin, index))

    def seed(self, index: int) -> int:
        """All episodes of a task begin at the same start, but what chance does in one is its own."""
        return key(0, (*self.play.request.stream, self.play.wave, index)) % 2**31

    def _begin(self, index: int, episode: Episode) -> None:
        opened, episode = episode, episode if self.play.wrap is None else self.play.wrap(episode)
        row = self.running[index] = EpisodeState(index, episode, opened, episode.state)
        row.observe(episode.observation)
        row.context = self.driver.messages(self.context(row.history))
        if self.play.context is not None and len(row.context) >= self.driver.context_length:
            self.crowded = True
        if self.crowded:
            self.driver.actor.leave(opened)
            if len(self.running) == self.play.n:
                self.then([])
            return
        if len(row.context) >= self.driver.context_length and not isinstance(self.driver.world, OneTurn):
            self._record(row, Completion((), (), Stop.context, dict.fromkeys(self.driver.capture, ())), "", Feedback())
            self._end(row, Stop.context.value)
        elif not self.together:
            self._write([row], turn=0)
        if self.together and len(self.running) == self.play.n:
            for _, rows in groupby((row for row in self._rows() if not row.done), lambda row: row.context):
                self._write(list(rows), turn=0)

    def _rows(self) -> list[EpisodeState]:
        return [self.running[index] for index in sorted(self.running)]

    def _write(self, rows: list[EpisodeState], turn: int) -> None:
        play, sampling = self.play, self.play.sampling or self.play.request.sampling
        begun = self._begun(rows[0].context, turn)
        left = sampling.max_tokens - len(begun.ids)
        window = left if play.window is None else min(play.window, left)
        for row in rows:
            row.begun = len(begun.ids)
        if left < 1 or begun.stop is not Stop.length:  # nothing can follow
            for row in rows:
                self._act(row, begun, turn)
            return
        request = Generate(
            rows[0].context,
            n=len(rows),
            sampling=sampling if window == sampling.max_tokens else replace(sampling, max_tokens=window),
            stream=(*play.request.stream, play.wave, turn),
            first=rows[0].index,
            prefix=begun.ids,
            capture=self.driver.capture,
            keep=play.keep or not isinstance(self.driver.world, OneTurn),  # nobody goes on from an answer
        )

        def written(completions: list[Completion]) -> None:
            for row, new in zip(rows, completions, strict=True):
                whole = join_prefix(begun, new)
                row.finished = new.stop is not Stop.length or len(whole.ids) >= sampling.max_tokens
                if row.finished:
                    self._act(row, whole, turn)
                else:
                    self._pause(row, whole, turn)

        self.driver.submit(request, written, play.role)

    def _begun(self, context: tuple[int, ...], turn: int) -> Completion:
        """What stands there of a turn before it is written."""
        if turn != self.opens or self.play.begun is None:
            return NOTHING
        return beginning(self.driver, self.play.begun, context, self.play.request.task.key)

    def _pause(self, row: EpisodeState, completion: Completion, turn: int) -> None:
        """Leave a turn as it is for now: its world has not seen it."""
        self._take(row, completion, turn, self.driver.sampler.text(completion.ids), Feedback(), "")

    def _act(self, row: EpisodeState, completion: Completion, turn: int) -> None:
        text = self.driver.sampler.text(completion.ids)

        def acted(feedback: Feedback, failure: str) -> None:
            self._take(row, completion, turn, text, feedback, failure)

        self.driver.actor.act(row.episode, text, acted)

    def _take(
        self, row: EpisodeState, completion: Completion, turn: int, text: str, feedback: Feedback, failure: str
    ) -> None:
        """Record a turn, and go on or end."""
        self._record(row, completion, text, feedback)
        failure = failure or row.contradiction(self.driver.world, feedback)
        cut = completion.stop.value in CUT
        if failure:
            row.failure = failure
            self._end(row, FAILED, cut)
        elif feedback.done:
            self._end(row, completion.stop.value, cut)
        elif turn + 1 >= self.max_turns:
            self._end(row, TURNS)
        elif completion.stop is Stop.context:
            self._end(row, Stop.context.value)
        else:
            self._go_on(row, turn, feedback.observation)

    def _record(self, row: EpisodeState, completion: Completion, text: str, feedback: Feedback) -> None:
        trained, place = self.play.train_context, range(len(completion.ids))
        tokens: dict[str, Any] = {"sampler.logp": completion.logp}
        tokens |= {f"sampler.{name}": values for name, values in completion.captured.items()}
        if self.play.window is not None:
            tokens["new"] = [p >= row.begun for p in place]
        if self.play.begun is not None and not self.play.begun.trained:
            tokens["keep.begun"] = [p >= row.begun for p in place]
        turn = Turn(
            ids=completion.ids,
            context=row.context,
            train_context=None if trained is None else self.driver.messages(trained(row.history)),
            columns=row.columns(self.driver.world, text, feedback),
            origin=self.origins(row, completion),
            tokens=tokens,
        )
        row.add(turn, Wrote(completion.ids, completion.stop is Stop.end), text, feedback)

    def _go_on(self, row: EpisodeState, turn: int, observation: str) -> None:
        row.failure = stranger(self.driver.world, row.episode.agent)
        if row.failure:
            self._end(row, FAILED)
            return
        row.observe(observation)
        row.context = self.driver.messages(self.context(row.history))
        if len(row.context) >= self.driver.context_length:
            self._end(row, Stop.context.value)
            return
        self._write([row], turn + 1)

    def _end(self, row: EpisodeState, stop: str, cut: bool = False) -> None:
        row.done, row.stop, row.truncated = True, stop, cut or stop in CUT
        self.driver.actor.leave(row.opened)
        if len(self.running) == self.play.n and all(r.done for r in self.running.values()):
            self.then([r.rollout(self.play, self.driver.world, self.source) for r in self._rows()])

    def origins(self, row: EpisodeState, completion: Completion) -> list[str] | None:
        """Who wrote each token; None: the policy."""
        if self.play.begun is None:
            return None
        new = [Origin.policy.name] * (len(completion.ids) - row.begun)
        return [self.play.begun.origin.name] * row.begun + new

    @property
    def source(self) -> str:
        """Whom a rollout comes from: the policy, or who wrote how it begins."""
        begun = self.play.begun
        return Origin.policy.name if begun is None or not (begun.ids or begun.text) else begun.origin.name
