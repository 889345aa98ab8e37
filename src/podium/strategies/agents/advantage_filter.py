"""Asking again for actions that a critic finds too bad, agent by agent or for all agents of a round at once."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from podium.core.build import Rollout, Turn
from podium.core.errors import PodiumError, one_of, within
from podium.core.part import Strategy
from podium.core.schedule import Number
from podium.protocols.context import Context, History, Message
from podium.protocols.pieces import joined
from podium.strategies.draw import Draw
from podium.strategies.requests import Plan, Recite, Resume, Score, TaskRequest, Wave, rollouts_of

__all__ = ["AdvantageFilter", "Refused"]

OUT_OF_TURNS = "turns"  # why a rollout stops that has been played as far as it was asked for


class Refused(Context):
    """Another context, with the actions that were refused below the last message."""

    of: Context
    lines: tuple[str, ...] = ()

    def __call__(self, history: History) -> Sequence[Message]:
        *before, last = self.of(history)
        return [*before, joined("\n", (str(last), *self.lines))]


@dataclass
class _Walk:
    """A rollout on its way, and the proposals for what comes next."""

    index: int
    threshold: float
    turns: tuple[Turn, ...] = ()
    rollout: Rollout | None = None  # with the accepted turns
    best: tuple[float, Rollout] | None = None  # of the proposals so far
    refused: list[str] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)  # of the accepted proposals, one for each turn
    tries: list[int] = field(default_factory=list)
    asked: int = 0  # proposals for the turns to come
    queries: int = 0
    done: bool = False


class AdvantageFilter(Strategy):
    """Lets a critic judge each proposed action before it is taken: one whose advantage is too small is asked for again,
    at most `tries` times; then the best one of them is taken.

        S mode: an agent's action, by A^i = Q(s, a^1 … a^i) − Q(s, a^1 … a^(i−1))
        J mode: the actions of a whole round, by Q(s, a) − Q(s, all wait) / gamma

    The critic reads what the agent sees: its value at the first token of a turn is Q before the action, at the last
    token, which has seen the action, Q after it. The threshold is doubled when a round begins and halved after each
    proposal, as printed: the first proposal must exceed the nominal one, and each retry half of the last. With `told`,
    a template with {action} and {score}, refused actions stand in the prompt of the next try; training sees the plain
    prompt. An untrained critic finds all actions equal: raise `tries` from 1 when it has learned something.
    """

    reference = "READ, https://read-llm.github.io"
    n: int = 4
    mode: str = "S"  # S: agent by agent; J: the joint action
    tries: Number = 3  # proposals at most
    threshold: float = 0.0  # what a score must exceed
    gamma: float = 0.97  # discount of a round, in (0, 1]
    wait: str = "wait"  # the action that changes nothing
    told: str = ""  # what the next try is told of a refused action; empty: nothing
    critic: str = "critic"  # the role that judges
    draw: Draw = Draw()

    needs = ("turn.round", "turn.action")
    provides = ("rollout.queries", "turn.tries", "turn.score")

    def __post_init__(self) -> None:
        within(self, "n", 1)
        within(self, "tries", 1)
        within(self, "gamma", 0, 1, open_low=True)
        one_of(self, "mode", ("S", "J"))
        try:
            self.told.format(action="", score=0.0)
        except (KeyError, IndexError, ValueError) as error:
            fields = "{action} and {score}"
            raise PodiumError(f"AdvantageFilter.told = {self.told!r} may contain only {fields}: {error}.") from error

    @property
    def neutral(self) -> AdvantageFilter:
        return self.replace(tries=1)

    @property
    def roles_asked(self) -> tuple[str, ...]:
        return (self.critic,)

    def acted(self, rollouts: Sequence[Any]) -> int:
        return sum(rollout.columns["queries"] > len(rollout.turns) for rollout in rollouts)

    # -- the rules ---------------------------------------------------------------------------------------------------

    def value(self, all_wait: float) -> float:
        """V(s) = Q(s, all wait) / gamma: waiting changes nothing and costs a round."""
        return all_wait / self.gamma

    def joint_advantage(self, joint: float, all_wait: float) -> float:
        """Q(s, a) − V(s)."""
        return joint - self.value(all_wait)

    def accepts(self, score: float, threshold: float) -> bool:
        """Whether an action is taken."""
        return score > threshold

    # -- the plan ----------------------------------------------------------------------------------------------------

    def plan(self, task: TaskRequest) -> Plan:
        if task.world is None or not task.world.agents:
            raise PodiumError("AdvantageFilter judges the actions of several agents: take a world that has some.")
        agents = len(task.world.agents)
        limit = task.world.max_turns if self.draw.max_turns is None else self.draw.max_turns
        walks = [_Walk(index, self.threshold) for index in range(self.n)]
        wave = 0
        while live := [walk for walk in walks if not walk.done]:
            proposals = rollouts_of((yield [self._ask(task, walk, agents, limit, wave) for walk in live]))
            wave += 1
            scores = yield from self._scores(task, live, proposals)
            for walk, rollout, score in zip(live, proposals, scores, strict=True):
                self._judge(walk, rollout, score, limit)
        return [_finished(walk) for walk in walks]

    def _ask(self, task: TaskRequest, walk: _Walk, agents: int, limit: int, wave: int) -> Resume:
        """A proposal for the next agent, or in J mode for the rest of the round."""
        begins = len(walk.turns) % agents == 0
        if begins and walk.asked == 0:
            walk.threshold *= 2
        ahead = 1 if self.mode == "S" else agents - len(walk.turns) % agents
        plain = self.draw.context_of(task)
        play = self.draw.play(
            task,
            first=walk.index,
            wave=wave,
            max_turns=min(len(walk.turns) + ahead, limit),
            context=Refused(plain, tuple(walk.refused)) if walk.refused else plain,
            train_context=self.draw.train_context or plain,
        )
        return Resume(play, walk.turns, chance=(0, walk.index))

    def _scores(self, task: TaskRequest, walks: Sequence[_Walk], proposals: Sequence[Rollout]) -> Any:
        """The score of each proposal."""
        last = [rollout.turns[-1] for rollout in proposals]
        asked: Wave = [self._read(turn) for turn in last]
        if self.mode == "S":
            values = yield asked
            return [value[-1] - value[0] if value else 0.0 for value in values]
        waits: Wave = []
        for walk, rollout in zip(walks, proposals, strict=True):
            new = len(rollout.turns) - len(walk.turns)
            texts = (*(str(turn.columns["action"]) for turn in walk.turns), *((self.wait,) * new))
            waits.append(Recite(task, texts, index=walk.index, context=self.draw.context))
        waiting = rollouts_of((yield waits))
        values = yield [*asked, *(self._read(rollout.turns[-1]) for rollout in waiting)]
        after, idle = values[: len(last)], values[len(last) :]
        return [self.joint_advantage(q[-1] if q else 0.0, w[-1]) for q, w in zip(after, idle, strict=True)]

    def _read(self, turn: Turn) -> Score:
        context = turn.context if turn.train_context is None else turn.train_context
        return Score(tuple(context or ()), tuple(turn.ids), name="value", role=self.critic)

    def _judge(self, walk: _Walk, rollout: Rollout, score: float, limit: int) -> None:
        """Take a proposal, or ask again."""
        walk.threshold /= 2
        walk.asked += 1
        walk.queries += len(rollout.turns) - len(walk.turns)
        if walk.best is None or score > walk.best[0]:
            walk.best = score, rollout
        if not self.accepts(score, walk.threshold) and walk.asked < int(self.tries):
            action = ", ".join(str(turn.columns["action"]) for turn in rollout.turns[len(walk.turns) :])
            if self.told:
                walk.refused.append(self.told.format(action=action, score=score))
            return
        taken, chosen = (score, rollout) if self.accepts(score, walk.threshold) else walk.best
        new = len(chosen.turns) - len(walk.turns)
        walk.scores += [taken] * new
        walk.tries += [walk.asked] * new
        walk.turns, walk.rollout = tuple(chosen.turns), chosen
        walk.best, walk.refused, walk.asked = None, [], 0
        walk.done = chosen.columns["stop"] != OUT_OF_TURNS or len(chosen.turns) >= limit


def _finished(walk: _Walk) -> Rollout:
    """The rollout with what its actions have cost. All its turns were sampled by the policy, none is a copy."""
    assert walk.rollout is not None
    turns = [
        dataclasses.replace(turn, origin=None, columns={**turn.columns, "tries": tries, "score": score})
        for turn, tries, score in zip(walk.rollout.turns, walk.tries, walk.scores, strict=True)
    ]
    columns = {**walk.rollout.columns, "queries": float(walk.queries)}
    return dataclasses.replace(walk.rollout, turns=turns, columns=columns)
