"""A blueprint first: the model writes its subgoals, then follows them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from podium.core.build import Rollout
from podium.core.columns import Purpose
from podium.core.errors import PodiumError, one_of
from podium.protocols.world import Episode, Feedback
from podium.strategies.requests import Plan, Play, TaskRequest
from podium.strategies.sample.sample import Sample

__all__ = ["SampleBlueprints", "mean_log_probability", "subgoals"]


def subgoals(blueprint: str) -> list[str]:
    """The lines of a blueprint that say something."""
    return [line.strip() for line in blueprint.splitlines() if line.strip()]


def mean_log_probability(logp: list[float]) -> float:
    """How sure the model was of a text: the mean log-probability of its tokens; of an empty one −∞."""
    return sum(logp) / len(logp) if logp else float("-inf")


class SampleBlueprints(Sample):
    """`n` rollouts that follow a blueprint of numbered subgoals, shown with the one that is next.

    `macro`: each writes a blueprint of its own, its first turn. `micro`: of `n` blueprints the one that the model is
    surest of is given to all rollouts. `done` in a turn moves on to the next subgoal.
    """

    reference = "HiMAC: Hierarchical Macro-Micro Learning for Long-Horizon LLM Agents"
    phase: str = "macro"
    choice: str = "confident"  # which blueprint the micro phase follows: confident or first
    done: str = "<done>"  # what the model writes when a subgoal is reached
    ask: str = "Write a numbered plan."  # stands below the task where a blueprint is wanted
    show: str = "plan:\n{plan}\nnow: {subgoal}\n{observation}"  # what a turn that follows one sees

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of(self, "phase", ("macro", "micro"))
        one_of(self, "choice", ("confident", "first"))
        try:
            self.show.format(plan="", subgoal="", observation="")
        except (KeyError, IndexError, ValueError) as error:
            known = "{plan}, {subgoal} and {observation}"
            raise PodiumError(f"SampleBlueprints.show = {self.show!r} may name {known} only: {error}.") from error
        if not self.done:
            raise PodiumError("SampleBlueprints.done is empty: say what the model writes when a subgoal is reached.")

    def plan(self, task: TaskRequest) -> Plan:
        play = Play(task, self.n, self.sampling(task.sampling), max_turns=self.max_turns, context=self.context)
        follow = partial(_Planned, done=self.done, show=self.show)
        if self.phase == "macro":
            answers = yield [replace(play, wrap=partial(_Planning, ask=self.ask, follow=follow))]
            return [rollout for answer in answers for rollout in answer]  # type: ignore[misc]
        drafts = yield [replace(play, wrap=partial(_Draft, ask=self.ask), purpose=Purpose.probe, first=self.n)]
        written: list[Rollout] = drafts[0]  # type: ignore[assignment]
        text = str(written[self.chosen([list(r.turns[0].tokens["sampler.logp"]) for r in written])].columns["text"])
        answers = yield [replace(play, wrap=partial(follow, blueprint=text), wave=1)]
        return [*answers[0], *written]

    def chosen(self, logp: list[list[float]]) -> int:
        """The number of the blueprint to follow, by the log-probabilities of their tokens; the first among equals."""
        return 0 if self.choice == "first" else max(range(len(logp)), key=lambda i: mean_log_probability(logp[i]))


class _Draft(Episode):
    """A blueprint and nothing else."""

    def __init__(self, episode: Episode, ask: str) -> None:
        super().__init__(f"{episode.observation}\n{ask}".strip(), episode.state)
        self.agent = episode.agent

    def act(self, text: str) -> Feedback:
        return Feedback(state=self.state)


class _Planned(Episode):
    """An episode whose observations name the blueprint and the next subgoal."""

    def __init__(self, episode: Episode, blueprint: str, done: str, show: str) -> None:
        self.inner, self.goals, self.done, self.show, self.reached = episode, subgoals(blueprint), done, show, 0
        super().__init__(self._shown(episode.observation), episode.state)
        self.agent, self.recap = episode.agent, episode.recap

    def act(self, text: str) -> Feedback:
        # The marker of the last subgoal ends nothing: the world does.
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
        return self.show.format(plan="\n".join(self.goals), subgoal=self.goals[self.reached], observation=observation)


class _Planning(Episode):
    """A blueprint as the first turn, then the episode that follows it. An empty one ends it with reward 0."""

    def __init__(self, episode: Episode, ask: str, follow: Callable[..., Episode]) -> None:
        super().__init__(f"{episode.observation}\n{ask}".strip(), episode.state)
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
