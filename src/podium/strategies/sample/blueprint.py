"""Plan first, then act: the model writes a blueprint of subgoals and follows it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from podium.core.build import Rollout
from podium.core.columns import Purpose
from podium.core.errors import PodiumError, one_of, within
from podium.core.part import Strategy
from podium.protocols.pieces import Pieces, filled, joined
from podium.protocols.world import Episode, Feedback
from podium.strategies.draw import Draw
from podium.strategies.requests import Plan, TaskRequest, rollouts_of

__all__ = ["SampleBlueprints", "mean_log_probability", "subgoals"]


def subgoals(blueprint: str) -> list[str]:
    """The lines of a blueprint that are not blank."""
    return [line.strip() for line in blueprint.splitlines() if line.strip()]


def mean_log_probability(logp: list[float]) -> float:
    """The model's confidence in a text: the mean log-probability of its tokens; −∞ for an empty one."""
    return sum(logp) / len(logp) if logp else float("-inf")


class SampleBlueprints(Strategy):
    """`n` rollouts that follow a blueprint of numbered subgoals; each turn sees the blueprint and its current subgoal.

    In the phase `macro` each rollout writes its own blueprint as its first turn. In `micro` n blueprints are sampled,
    and all rollouts follow the one that the model is most confident in. A turn that contains `done` moves on to the
    next subgoal.
    """

    reference = "HiMAC: Hierarchical Macro-Micro Learning for Long-Horizon LLM Agents"
    n: int = 8
    phase: str = "macro"  # macro or micro
    choice: str = "confident"  # which blueprint the micro phase follows: confident or first
    done: str = "<done>"  # what the model writes when a subgoal is reached
    ask: str = "Write a numbered plan."  # stands below the task where a blueprint is wanted
    show: str = "plan:\n{plan}\nnow: {subgoal}\n{observation}"  # what a turn that follows a blueprint sees
    draw: Draw = Draw()

    def __post_init__(self) -> None:
        within(self, "n", 1)
        one_of(self, "phase", ("macro", "micro"))
        one_of(self, "choice", ("confident", "first"))
        try:
            self.show.format(plan="", subgoal="", observation="")
        except (KeyError, IndexError, ValueError) as error:
            fields = "{plan}, {subgoal} and {observation}"
            raise PodiumError(f"SampleBlueprints.show = {self.show!r} may contain only {fields}: {error}.") from error
        if not self.done:
            raise PodiumError("SampleBlueprints.done is empty: say what the model writes when a subgoal is reached.")

    def plan(self, task: TaskRequest) -> Plan:
        play = self.draw.play(task, self.n)
        follow = partial(_Planned, done=self.done, show=self.show)
        if self.phase == "macro":
            return rollouts_of((yield [replace(play, wrap=partial(_Planning, ask=self.ask, follow=follow))]))
        draft = replace(play, wrap=partial(_Draft, ask=self.ask), purpose=Purpose.probe, first=self.n)
        drafts: list[Rollout] = rollouts_of((yield [draft]))
        best = drafts[self.chosen([list(r.turns[0].tokens["sampler.logp"]) for r in drafts])]
        blueprint = str(best.columns["text"])
        rollouts = rollouts_of((yield [replace(play, wrap=partial(follow, blueprint=blueprint), wave=1)]))
        return [*rollouts, *drafts]

    def chosen(self, logp: list[list[float]]) -> int:
        """The index of the blueprint to follow, from the log-probabilities of their tokens; the first of equals."""
        return 0 if self.choice == "first" else max(range(len(logp)), key=lambda i: mean_log_probability(logp[i]))


def _asked(observation: str, ask: str) -> str:
    """The observation with the request for a blueprint below it."""
    whole = joined("\n", (observation, ask))
    return whole if isinstance(whole, Pieces) else whole.strip()


class _Draft(Episode):
    """An episode of one turn: the blueprint."""

    def __init__(self, episode: Episode, ask: str) -> None:
        super().__init__(_asked(episode.observation, ask), episode.state)
        self.agent = episode.agent

    def act(self, text: str) -> Feedback:
        return Feedback(state=self.state)


class _Planned(Episode):
    """An episode whose observations show the blueprint and the current subgoal."""

    def __init__(self, episode: Episode, blueprint: str, done: str, show: str) -> None:
        self.inner, self.goals, self.done, self.show, self.reached = episode, subgoals(blueprint), done, show, 0
        super().__init__(self._shown(episode.observation), episode.state)
        self.agent, self.recap = episode.agent, episode.recap

    def act(self, text: str) -> Feedback:
        # The world, not the marker of the last subgoal, ends the episode.
        if self.done in text and self.reached + 1 < len(self.goals):
            self.reached += 1
        feedback = self.inner.act(text)
        self.agent, self.recap = self.inner.agent, self.inner.recap
        return Feedback(
            feedback.reward, feedback.done, self._shown(feedback.observation), feedback.state, feedback.info
        )

    def _shown(self, observation: str) -> str:
        if not self.goals:
            return observation
        goals = "\n".join(self.goals)
        return filled(self.show, plan=goals, subgoal=self.goals[self.reached], observation=observation)


class _Planning(Episode):
    """A blueprint as the first turn, then the episode that follows it. An empty blueprint ends it with reward 0."""

    def __init__(self, episode: Episode, ask: str, follow: Callable[..., Episode]) -> None:
        super().__init__(_asked(episode.observation, ask), episode.state)
        self.inner, self.follow, self.planned = episode, follow, False
        self.agent, self.recap = episode.agent, episode.recap

    def act(self, text: str) -> Feedback:
        if self.planned:
            feedback = self.inner.act(text)
            self.agent, self.recap = self.inner.agent, self.inner.recap
            return feedback
        self.planned = True
        if not text.strip():
            return Feedback(state=self.state)
        self.inner = self.follow(self.inner, blueprint=text)
        return Feedback(done=False, observation=self.inner.observation, state=self.inner.state)
