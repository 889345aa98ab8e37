"""Blueprints: the first turn writes a plan of numbered subgoals, and the turns after it follow the plan."""

from __future__ import annotations

from dataclasses import replace

from podium.core.errors import PodiumError
from podium.protocols.format import Demonstrated, Format, known_words, milestones
from podium.protocols.pieces import Pieces, filled, joined
from podium.protocols.world import Episode, Feedback

__all__ = ["Blueprint", "DraftEpisode", "PlannedEpisode", "subgoals"]


def subgoals(blueprint: str) -> list[str]:
    """The lines of a blueprint that are not blank."""
    return [line.strip() for line in blueprint.splitlines() if line.strip()]


class Blueprint(Format):
    """A blueprint as the first turn; each later turn sees it and its current subgoal, and writes an action.

    A turn that contains `done` moves on to the next subgoal, unless the world refuses its action. The marker is not
    part of the action.
    """

    plan: str = "Write a numbered plan."  # stands below the task where a blueprint is wanted
    show: str = "plan:\n{plan}\nnow: {subgoal}\n{observation}"  # what a turn that follows a blueprint sees
    done: str = "<done>"  # what the model writes when a subgoal is reached
    tokens: int = 32

    def __post_init__(self) -> None:
        try:
            self.show.format(plan="", subgoal="", observation="")
        except (KeyError, IndexError, ValueError) as error:
            fields = "{plan}, {subgoal} and {observation}"
            raise PodiumError(f"Blueprint.show = {self.show!r} may contain only {fields}: {error}.") from error
        if not self.done:
            raise PodiumError("Blueprint.done is empty: say what the model writes when a subgoal is reached.")

    def wrap(self, episode: Episode) -> Episode:
        return _Planning(episode, self)

    def script(self, actions: tuple[str, ...], number: int) -> tuple[tuple[str, ...], int]:
        return ("", *actions), 0

    def write(self, turn: Demonstrated) -> str:
        actions = turn.actions[1:]
        ends = milestones(actions)
        if turn.number == 0:
            goals = [known_words(actions[end], turn.history, 0) for end in ends]
            return "\n".join(f"{number}. {goal}" for number, goal in enumerate(goals, start=1))
        return f"{turn.action} {self.done}" if turn.number - 1 in ends[:-1] else turn.action


class DraftEpisode(Episode):
    """An episode of one turn: the blueprint."""

    def __init__(self, episode: Episode, format: Blueprint) -> None:
        super().__init__(_asked(episode.observation, format.plan), episode.state)
        self.agent = episode.agent

    def act(self, text: str) -> Feedback:
        return Feedback(state=self.state)


class PlannedEpisode(Episode):
    """An episode whose observations show the blueprint and the current subgoal."""

    def __init__(self, episode: Episode, format: Blueprint, blueprint: str) -> None:
        self.inner, self.format, self.goals, self.reached = episode, format, subgoals(blueprint), 0
        super().__init__(self._shown(episode.observation), episode.state)
        self.agent, self.recap = episode.agent, episode.recap

    def act(self, text: str) -> Feedback:
        action = text.replace(self.format.done, "").strip() if self.format.done in text else text
        feedback = self.inner.act(action)
        # The world, not the marker of the last subgoal, ends the episode.
        accepted = bool(feedback.info.get("valid", True))
        if self.format.done in text and accepted and self.reached + 1 < len(self.goals):
            self.reached += 1
        self.agent, self.recap = self.inner.agent, self.inner.recap
        return replace(feedback, observation=self._shown(feedback.observation))

    def _shown(self, observation: str) -> str:
        if not self.goals:
            return observation
        goals = "\n".join(self.goals)
        return filled(self.format.show, plan=goals, subgoal=self.goals[self.reached], observation=observation)


class _Planning(Episode):
    """A blueprint as the first turn, then the episode that follows it. An empty blueprint ends it with reward 0."""

    def __init__(self, episode: Episode, format: Blueprint) -> None:
        super().__init__(_asked(episode.observation, format.plan), episode.state)
        self.inner, self.format, self.planned = episode, format, False
        self.agent, self.recap = episode.agent, episode.recap

    def act(self, text: str) -> Feedback:
        if self.planned:
            feedback = self.inner.act(text)
            self.agent, self.recap = self.inner.agent, self.inner.recap
            return feedback
        self.planned = True
        if not text.strip():
            return Feedback(state=self.state)
        self.inner = PlannedEpisode(self.inner, self.format, text)
        return Feedback(done=False, observation=self.inner.observation, state=self.inner.state, info={"valid": True})


def _asked(observation: str, ask: str) -> str:
    """The observation with the request for a blueprint below it."""
    whole = joined("\n", (observation, ask))
    return whole if isinstance(whole, Pieces) else whole.strip()
