"""Episodes under way: each writes a turn, meets its world, and goes on or ends with a stated reason."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import groupby
from numbers import Real
from typing import TYPE_CHECKING, Any

from podium.core.batch import Origin
from podium.core.build import Rollout, Turn
from podium.core.errors import PodiumError
from podium.rollout.plan import Play, Recite, Score, Written
from podium.sampler.request import Completion, Generate, Stop
from podium.sampler.streams import key
from podium.training.acting import stranger
from podium.worlds.context import Context, Exchange, History, Wrote
from podium.worlds.world import Answer as OneTurn
from podium.worlds.world import Episode, Feedback

if TYPE_CHECKING:
    from podium.training.driver import Driver

__all__ = ["Episodes", "Recital"]

# Why a rollout ended, where it was not its last completion (`Stop`) that did.
TURNS = "turns"  # it has had as many turns as it may
FAILED = "failed"  # the world failed: `failure` says how
CUT = (Stop.length.value, Stop.context.value, TURNS)  # a limit ended it


NOTHING = Completion((), (), Stop.length)


def _joined(begun: Completion, new: Completion) -> Completion:
    """A completion with what stood before it."""
    if not begun.ids:
        return new
    captured = {name: (*begun.captured[name], *values) for name, values in new.captured.items()}
    return Completion((*begun.ids, *new.ids), (*begun.logp, *new.logp), new.stop, captured)


@dataclass
class Running:
    """One episode under way."""

    index: int
    episode: Episode
    state: str = ""  # of the world, before the turn
    agent: str = ""  # who acts now
    context: tuple[int, ...] = ()  # after which the turn is written
    begun: int = 0  # so many tokens of the turn were there before
    finished: bool = True  # not stopped by a window
    seen: dict[str, History] = field(default_factory=dict)  # by agent
    said: dict[str, tuple[Wrote, str]] = field(default_factory=dict)  # each agent's last turn
    turns: list[Turn] = field(default_factory=list)
    reward: float = 0.0
    info: dict[str, Any] = field(default_factory=dict)
    stop: str = ""
    truncated: bool = False
    failure: str = ""
    texts: list[str] = field(default_factory=list)
    done: bool = False
    opened: Episode | None = None  # the world's own, where a strategy has put another around it

    def observe(self, observation: str) -> None:
        """Show an observation to the agent that acts next."""
        agent = self.agent = self.episode.agent
        if agent not in self.seen:
            self.seen[agent] = History(observation, recap=self.episode.recap)
            return
        history, exchange = self.seen[agent], Exchange(*self.said[agent], observation)
        self.seen[agent] = History(history.prompt, (*history.exchanges, exchange), self.episode.recap)

    @property
    def history(self) -> History:
        return self.seen[self.agent]


class Episodes:
    """The n episodes of a `Play`, turn by turn."""

    def __init__(self, driver: Driver, play: Play, then: Callable[[list[Rollout]], None]) -> None:
        self.driver, self.play, self.then = driver, play, then
        self.running: dict[int, Running] = {}  # by index
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
        row = self.running[index] = Running(index, episode, episode.state, opened=opened)
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
            row.texts.append("")
            self._record(row, Completion((), (), Stop.context, dict.fromkeys(self.driver.capture, ())), "", Feedback())
            self._end(row, Stop.context.value)
        elif not self.together:
            self._write([row], turn=0)
        if self.together and len(self.running) == self.play.n:
            for _, rows in groupby((row for row in self._rows() if not row.done), lambda row: row.context):
                self._write(list(rows), turn=0)

    def _rows(self) -> list[Running]:
        return [self.running[index] for index in sorted(self.running)]

    def _write(self, rows: list[Running], turn: int) -> None:
        play, sampling = self.play, self.play.sampling or self.play.request.sampling
        begun = self._begun(rows[0].context) if turn == self.opens and play.begun is not None else NOTHING
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
                whole = _joined(begun, new)
                row.finished = new.stop is not Stop.length or len(whole.ids) >= sampling.max_tokens
                if row.finished:
                    self._act(row, whole, turn)
                else:
                    self._pause(row, whole, turn)

        self.driver.submit(request, written, play.role)

    def _begun(self, context: tuple[int, ...]) -> Completion:
        """How the turn begins: tokens with a number for everything that is captured."""
        begun = self.play.begun or Written()
        ids = self.driver.written(begun.text, False) if begun.text else begun.ids
        if len(context) + len(ids) > self.driver.context_length:
            raise PodiumError(
                f"A rollout of {self.play.request.task.key!r} is to begin with {len(ids)} tokens after a context of "
                f"{len(context)}, more than the {self.driver.context_length:g} of the model's context. Shorten them."
            )

        def numbers(name: str, known: tuple[Any, ...] | None) -> tuple[Any, ...]:
            if known is None:
                scored = begun.scored and name in ("logp", "entropy")
                return tuple(self.driver.score(Score(context, ids, name))[0]) if scored else (0.0,) * len(ids)
            if len(known) != len(ids):
                raise PodiumError(f"A rollout begins with {len(ids)} tokens and {len(known)} numbers of {name!r}.")
            return known

        captured = {name: numbers(name, begun.captured.get(name)) for name in self.driver.capture}
        full = len(context) + len(ids) >= self.driver.context_length
        stop = Stop.end if self.driver.closed(ids) else Stop.context if full else Stop.length
        return Completion(ids, numbers("logp", begun.logp), stop, captured)

    def _pause(self, row: Running, completion: Completion, turn: int) -> None:
        """Leave a turn as it is for now: its world has not seen it."""
        text = self.driver.sampler.text(completion.ids)
        row.texts.append(text)
        self._take(row, completion, turn, text, Feedback(), "")

    def _act(self, row: Running, completion: Completion, turn: int) -> None:
        text = self.driver.sampler.text(completion.ids)
        row.texts.append(text)

        def acted(feedback: Feedback, failure: str) -> None:
            self._take(row, completion, turn, text, feedback, failure)

        self.driver.actor.act(row.episode, text, acted)

    def _take(
        self, row: Running, completion: Completion, turn: int, text: str, feedback: Feedback, failure: str
    ) -> None:
        """Record a turn, and go on or end."""
        self._record(row, completion, text, feedback)
        failure = failure or self._contradiction(row, feedback)
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

    def _contradiction(self, row: Running, feedback: Feedback) -> str:
        """How a world contradicts itself that also says what a whole episode has earned; empty where it does not."""
        if not feedback.done or "rollout.reward" not in self.driver.world.provides or "reward" not in feedback.info:
            return ""
        total = feedback.info["reward"]
        if isinstance(total, Real) and math.isclose(float(total), row.reward, rel_tol=1e-6, abs_tol=1e-6):
            return ""
        return f"the world says that the episode has earned {total!r}, but its turns have earned {row.reward:g}"

    def _record(self, row: Running, completion: Completion, text: str, feedback: Feedback) -> None:
        world = self.driver.world
        columns = {"reward": float(feedback.reward), "state": row.state, "next_state": feedback.state, "action": text}
        columns["observation"] = feedback.observation  # what the world answered
        known = {"valid": False, **world.blank, **feedback.info}
        columns |= {name: known.get(name) for name in _names(world.provides, "turn") - set(columns)}
        if world.agents:
            columns["agent"] = row.agent
        trained, place = self.play.train_context, range(len(completion.ids))
        tokens: dict[str, Any] = {"sampler.logp": completion.logp}
        tokens |= {f"sampler.{name}": values for name, values in completion.captured.items()}
        if self.play.window is not None:
            tokens["new"] = [p >= row.begun for p in place]
        if self.play.begun is not None and not self.play.begun.trained:
            tokens["keep.begun"] = [p >= row.begun for p in place]
        row.turns.append(
            Turn(
                ids=completion.ids,
                context=row.context,
                train_context=None if trained is None else self.driver.messages(trained(row.history)),
                columns=columns,
                origin=self.origins(row, completion),
                tokens=tokens,
            )
        )
        row.state = feedback.state or row.episode.state
        row.said[row.agent] = Wrote(completion.ids, completion.stop is Stop.end), text
        row.reward += float(feedback.reward)
        row.info.update(feedback.info)

    def _go_on(self, row: Running, turn: int, observation: str) -> None:
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

    def _end(self, row: Running, stop: str, cut: bool = False) -> None:
        row.done, row.stop, row.truncated = True, stop, cut or stop in CUT
        if row.opened is not None:
            self.driver.actor.leave(row.opened)
        if len(self.running) == self.play.n and all(r.done for r in self.running.values()):
            self.then([self._rollout(r) for r in self._rows()])

    def origins(self, row: Running, completion: Completion) -> list[str] | None:
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

    def _rollout(self, row: Running) -> Rollout:
        request, world = self.play.request, self.driver.world
        columns = {
            "reward": float(row.reward),
            "correct": bool(row.info.get("correct", False)) and not row.failure,  # what it said before is no verdict
            "answer": str(row.info.get("answer", "")),
            "truncated": row.truncated,
            "stop": row.stop,
            "failure": row.failure,
            "text": "\n".join(row.texts),
            "prompt": request.task.prompt,
            "level": request.task.level,
            "domain": request.task.domain,
            "purpose": int(self.play.purpose),
            "index": row.index,
            "source": self.source,
        }
        if self.play.window is not None:
            columns["finished"] = row.finished
        if world.agents:  # who never got to act
            columns["idle"] = ", ".join(a for a in world.agents if a not in row.said)
        known = {**world.blank, **request.task.data, **row.info}
        columns |= {name: known.get(name) for name in _names(world.provides, "rollout") - set(columns)}
        return Rollout(task=request.task.key, group=request.group, turns=row.turns, columns=columns | self.play.columns)


@cache
def _names(provides: tuple[str, ...], level: str) -> set[str]:
    """The columns of a level that a world writes."""
    return {column.partition(".")[2] for column in provides if column.startswith(f"{level}.")}


class Recital(Episodes):
    """An episode whose turns are given texts."""

    def __init__(self, driver: Driver, recite: Recite, then: Callable[[list[Rollout]], None]) -> None:
        request, self.episode = recite.request, recite.episode
        seen: dict[str, Any] = {"context": recite.context, "train_context": recite.train_context}
        play = Play(request, purpose=recite.purpose, first=recite.index, columns=recite.columns, **seen)
        super().__init__(driver, replace(play, begun=recite.begun), then)
        self.ended, self.optional = recite.ended, recite.optional
        # A solution of several turns is one of this very episode, chance included.
        seed = request.group if isinstance(driver.world, OneTurn) else self.seed(recite.index)
        self.texts = recite.texts or driver.world.demonstrate(request.task, recite.style, seed)
        self.origin = recite.origin.name
        self.max_turns = min(self.max_turns, len(self.texts))

    def _open(self, index: int) -> None:
        if self.episode is None:
            super()._open(index)
        else:
            self.driver.actor.enter(self.episode, partial(self._begin, index))

    def _write(self, rows: list[Running], turn: int) -> None:
        begun = self._begun(rows[0].context) if turn == 0 and self.play.begun is not None else NOTHING
        ids = self.driver.written(self.texts[turn], self.ended or turn + 1 < self.max_turns)
        length, room = len(rows[0].context) + len(begun.ids) + len(ids), self.driver.context_length
        if length > room and self.optional:
            self.then([])
            return
        if length > room:
            raise PodiumError(
                f"The text given for {self.play.request.task.key!r} has {length} tokens with its prompt, more than the "
                f"{room:g} of the model's context. Leave it out or shorten it."
            )
        nothing = (0.0,) * len(ids)  # nobody drew these tokens
        completion = Completion(ids, nothing, Stop.end, dict.fromkeys(self.driver.capture, nothing))
        for row in rows:
            row.begun = len(begun.ids)
            self._act(row, _joined(begun, completion), turn)

    def origins(self, row: Running, completion: Completion) -> list[str]:
        before = [] if self.play.begun is None else [self.play.begun.origin.name] * row.begun
        return before + [self.origin] * (len(completion.ids) - row.begun)

    @property
    def source(self) -> str:
        return self.origin
