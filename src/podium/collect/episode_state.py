"""The state of an episode: what its agents have seen and written, what it has earned, and the rollout it becomes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from numbers import Real
from typing import Any

from podium.core.build import Rollout, Turn
from podium.protocols.context import Exchange, History, Wrote
from podium.protocols.format import Format, ReadTurn
from podium.protocols.world import Episode, Feedback, World
from podium.protocols.world_problems import unpaid_agent
from podium.strategies.requests import Play

__all__ = ["EpisodeState"]


@dataclass
class EpisodeState:
    """An episode that is being played."""

    index: int  # of the rollout within its group
    episode: Episode  # as the strategy has wrapped it
    opened: Episode  # as the world has opened it
    state: str  # of the world, before the turn
    agent: str = ""  # who acts now
    context: tuple[int, ...] = ()  # of the turn
    prefix_length: int = 0  # tokens of the turn that were given before the rest was sampled
    finished: bool = True  # False: a window has stopped it
    histories: dict[str, History] = field(default_factory=dict)  # by agent
    last_turns: dict[str, tuple[Wrote, str, str]] = field(default_factory=dict)  # by agent: tokens, text and action
    last_numbers: dict[str, int] = field(default_factory=dict)  # by agent: which turn was its last
    turns: list[Turn] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)  # of the turns
    reward: float = 0.0  # summed over the turns
    info: dict[str, Any] = field(default_factory=dict)  # the world's, over all turns
    stop: str = ""  # why it ended
    truncated: bool = False
    failure: str = ""
    done: bool = False

    def observe(self, observation: str) -> None:
        """Show an observation to the agent that acts next."""
        agent = self.agent = self.episode.agent
        if agent not in self.histories:
            self.histories[agent] = History(observation, recap=self.episode.recap)
            return
        history, (wrote, text, action) = self.histories[agent], self.last_turns[agent]
        exchange = Exchange(wrote, text, observation, action)
        self.histories[agent] = History(history.prompt, (*history.exchanges, exchange), self.episode.recap)

    @property
    def history(self) -> History:
        """What the agent that acts now has seen and written."""
        return self.histories[self.agent]

    def columns(
        self, world: World, reading: ReadTurn, format: Format | None, feedback: Feedback, role: dict[str, Any]
    ) -> dict[str, Any]:
        """The columns of the turn in which the agent has acted like this; `role` says who wrote it."""
        columns: dict[str, Any] = {"reward": float(feedback.reward), "state": self.state, "action": reading.action}
        columns["next_state"] = feedback.state
        if format is not None:
            columns |= {"well_formed": reading.well_formed, "form": reading.form}
        columns["observation"] = str(feedback.observation)  # what the world answered
        values = {"valid": False, **world.blank, **feedback.info}
        columns |= {name: values.get(name) for name in sorted(_names(world.provides, "turn") - set(columns))}
        if world.agents:
            columns["agent"] = self.agent
        return columns | role

    def add(self, turn: Turn, wrote: Wrote, text: str, feedback: Feedback) -> None:
        """Record a turn and the world's answer to it."""
        self.turns.append(turn)
        self.texts.append(text)
        self.state = feedback.state or self.episode.state
        self.last_turns[self.agent] = wrote, text, str(turn.columns["action"])
        self.last_numbers[self.agent] = len(self.turns) - 1
        self.reward += float(feedback.reward)
        self.info.update(feedback.info)

    def pay(self, world: World, rewards: Mapping[str, float]) -> str:
        """Book what agents have earned besides the reward of the last action to the last turn of each; returns why one
        of them cannot be paid, or nothing."""
        problem = unpaid_agent(world, rewards, self.last_numbers)
        for agent, earned in () if problem else rewards.items():
            number = self.last_numbers[agent]
            turn = self.turns[number]
            self.turns[number] = replace(turn, columns={**turn.columns, "reward": turn.columns["reward"] + earned})
            self.reward += float(earned)
        return problem

    def contradiction(self, world: World, feedback: Feedback) -> str:
        """How the world's reward of the whole episode contradicts those of its turns; empty: it does not."""
        if not feedback.done or "rollout.reward" not in world.provides or "reward" not in feedback.info:
            return ""
        total = feedback.info["reward"]
        if isinstance(total, Real) and math.isclose(float(total), self.reward, rel_tol=1e-6, abs_tol=1e-6):
            return ""
        return f"the world says that the episode has earned {total!r}, but its turns have earned {self.reward:g}"

    def rollout(self, play: Play, world: World, source: str) -> Rollout:
        """The rollout of an episode that is done."""
        request = play.request
        columns = {
            "reward": float(self.reward),
            "correct": bool(self.info.get("correct", False)) and not self.failure,  # before it failed: no verdict
            "answer": str(self.info.get("answer", "")),
            "truncated": self.truncated,
            "stop": self.stop,
            "failure": self.failure,
            "text": "\n".join(self.texts),
            "prompt": str(request.task.prompt),
            "level": request.task.level,
            "domain": request.task.domain,
            "purpose": int(play.purpose),
            "index": self.index,
            "source": source,
        }
        if request.format is not None:
            columns["well_formed"] = all(turn.columns["well_formed"] for turn in self.turns)
        if play.window is not None:
            columns["finished"] = self.finished
        if world.agents:  # who never got to act
            columns["idle"] = ", ".join(a for a in world.agents if a not in self.last_turns)
            for agent in world.agents:
                own = (turn.columns["reward"] for turn in self.turns if turn.columns["agent"] == agent)
                columns[f"reward.{agent}"] = float(sum(own))
        values = {**world.blank, **request.task.data, **self.info}
        columns |= {name: values.get(name) for name in sorted(_names(world.provides, "rollout") - set(columns))}
        return Rollout(task=request.task.key, group=request.group, turns=self.turns, columns=columns | play.columns)


@cache
def _names(provides: tuple[str, ...], level: str) -> set[str]:
    """The columns of a level that a world writes."""
    return {column.partition(".")[2] for column in provides if column.startswith(f"{level}.")}
