"""Episodes under way: each writes a turn, meets its world, and goes on or ends with a stated reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any

from podium.core.build import Rollout, Turn
from podium.core.errors import PodiumError
from podium.rollout.plan import Continue, Play, Recite
from podium.sampler.request import Completion, Generate, Stop
from podium.sampler.streams import key
from podium.worlds.context import Context, Exchange, History, Wrote
from podium.worlds.world import Answer as OneTurn
from podium.worlds.world import Episode, Feedback

if TYPE_CHECKING:
    from podium.training.driver import Driver

__all__ = ["Continuation", "Episodes", "Recital"]

# Why a rollout ended, where it was not its last completion (`Stop`) that did.
TURNS = "turns"  # it has had as many turns as it may
FAILED = "failed"  # the world failed: `failure` says how
CUT = (Stop.length.value, Stop.context.value, TURNS)  # a limit ended it


@dataclass
class Running:
    """One episode under way."""

    index: int
    episode: Episode
    state: str = ""  # of the world, before the turn
    agent: str = ""  # who acts now
    context: tuple[int, ...] = ()  # after which the turn is written
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
        # Episodes that open at once begin together: the prompt that they share is encoded once.
        self.together = driver.world.trusted or isinstance(driver.world, OneTurn)

    def start(self) -> None:
        for index in range(self.play.first, self.play.first + self.play.n):
            self._open(index)

    def _open(self, index: int) -> None:
        self.driver.actor.open(self.driver.world, self.play.request.task, self.seed(index), partial(self._begin, index))

    def seed(self, index: int) -> int:
        """All episodes of a task begin at the same start, but what chance does in one is its own."""
        return key(0, (*self.play.request.stream, self.play.wave, index)) % 2**31

    def _begin(self, index: int, episode: Episode) -> None:
        episode = episode if self.play.wrap is None else self.play.wrap(episode)
        row = self.running[index] = Running(index, episode, episode.state)
        row.observe(episode.observation)
        row.context = self.driver.messages(self.context(row.history))
        if not self.together:
            self._write([row], turn=0)
        elif len(self.running) == self.play.n:
            for _, rows in groupby(self._rows(), lambda row: row.context):
                self._write(list(rows), turn=0)

    def _rows(self) -> list[Running]:
        return [self.running[index] for index in sorted(self.running)]

    def _write(self, rows: list[Running], turn: int) -> None:
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

        self.driver.submit(request, written)

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

    def _record(self, row: Running, completion: Completion, text: str, feedback: Feedback) -> None:
        world = self.driver.world
        columns = {"reward": float(feedback.reward), "state": row.state, "next_state": feedback.state, "action": text}
        known = {**world.blank, **feedback.info}
        columns |= {name: known.get(name) for name in _names(world.provides, "turn") - set(columns)}
        if world.agents:
            columns["agent"] = row.agent
        trained = self.play.train_context
        row.turns.append(
            Turn(
                ids=completion.ids,
                context=row.context,
                train_context=None if trained is None else self.driver.messages(trained(row.history)),
                columns=columns,
                origin=self.origins(completion),
                tokens={
                    "sampler.logp": completion.logp,
                    **{f"sampler.{name}": values for name, values in completion.captured.items()},
                },
            )
        )
        row.state = feedback.state or row.episode.state
        row.said[row.agent] = Wrote(completion.ids, completion.stop is Stop.end), text
        row.reward += feedback.reward
        row.info.update(feedback.info)

    def _go_on(self, row: Running, turn: int, observation: str) -> None:
        agents, agent = self.driver.world.agents, row.episode.agent
        if agents and agent not in agents:
            row.failure = f"the world lets {agent!r} act, who is none of its agents: {', '.join(agents)}"
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
        if len(self.running) == self.play.n and all(r.done for r in self.running.values()):
            self.then([self._rollout(r) for r in self._rows()])

    def origins(self, completion: Completion) -> list[str] | None:
        """Who wrote each token; None: the policy."""
        return None

    def _rollout(self, row: Running) -> Rollout:
        request, world = self.play.request, self.driver.world
        columns = {
            "reward": float(row.reward),
            "correct": bool(row.info.get("correct", False)),
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
        }
        if world.agents:  # who never got to act
            columns["idle"] = ", ".join(a for a in world.agents if a not in row.said)
        known = {**world.blank, **request.task.data, **row.info}
        columns |= {name: known.get(name) for name in _names(world.provides, "rollout") - set(columns)}
        return Rollout(task=request.task.key, group=request.group, turns=row.turns, columns=columns | self.play.columns)


def _names(provides: tuple[str, ...], level: str) -> set[str]:
    """The columns of a level that a world writes."""
    return {column.partition(".")[2] for column in provides if column.startswith(f"{level}.")}


class Recital(Episodes):
    """An episode whose turns are given texts."""

    def __init__(self, driver: Driver, recite: Recite, then: Callable[[list[Rollout]], None]) -> None:
        request, self.episode = recite.request, recite.episode
        seen: dict[str, Any] = {"context": recite.context, "train_context": recite.train_context}
        play = Play(request, purpose=recite.purpose, first=recite.index, columns=recite.columns, **seen)
        super().__init__(driver, play, then)
        # A solution of several turns is one of this very episode, chance included.
        seed = request.group if isinstance(driver.world, OneTurn) else self.seed(recite.index)
        self.texts = recite.texts or driver.world.demonstrate(request.task, recite.style, seed)
        self.origin = recite.origin.name
        self.max_turns = min(self.max_turns, len(self.texts))

    def _open(self, index: int) -> None:
        if self.episode is None:
            super()._open(index)
        else:
            self._begin(index, self.episode)

    def _write(self, rows: list[Running], turn: int) -> None:
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

    def origins(self, completion: Completion) -> list[str]:
        return [self.origin] * len(completion.ids)


class Continuation(Episodes):
    """An episode of one turn that is written in windows: it meets its world when the turn has ended."""

    def __init__(self, driver: Driver, asked: Continue, then: Callable[[list[Rollout]], None]) -> None:
        if not isinstance(driver.world, OneTurn):
            raise PodiumError(
                f"Rollouts of the world {driver.world.name!r} have several turns: what is written in windows goes on "
                "in later iterations, which episodes cannot. Take a world of single answers, or another strategy."
            )
        super().__init__(driver, Play(asked.request, sampling=asked.sampling, first=asked.index), then)
        self.begun, self.window, self.finished = asked.begun, asked.window, True

    def _write(self, rows: list[Running], turn: int) -> None:
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
                self._take(row, whole, turn, text, Feedback(), "")

        self.driver.submit(request, written)

    def origins(self, completion: Completion) -> list[str]:
        old = len(self.begun.ids)
        return ["copied"] * old + ["policy"] * (len(completion.ids) - old)

    def _rollout(self, row: Running) -> Rollout:
        made = super()._rollout(row)
        (turn,), old = made.turns, len(self.begun.ids)
        marked = replace(turn, tokens={**turn.tokens, "new": [place >= old for place in range(len(turn.ids))]})
        return replace(made, turns=[marked], columns={**made.columns, "finished": self.finished})
