"""Plan first, then act: the model writes a blueprint of subgoals and follows it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from podium.core.build import Rollout
from podium.core.columns import Purpose
from podium.core.errors import one_of, within
from podium.core.part import Strategy
from podium.protocols.blueprint import Blueprint, DraftEpisode, PlannedEpisode
from podium.strategies.draw import Draw, refuse_settings
from podium.strategies.requests import Plan, TaskRequest, rollouts_of

__all__ = ["SampleBlueprints", "mean_log_probability"]


def mean_log_probability(logp: list[float]) -> float:
    """The model's confidence in a text: the mean log-probability of its tokens; −∞ for an empty one."""
    return sum(logp) / len(logp) if logp else float("-inf")


class SampleBlueprints(Strategy):
    """`n` rollouts that follow a blueprint of numbered subgoals; each turn sees the blueprint and its current subgoal.

    In the phase `macro` each rollout writes its own blueprint as its first turn. In `micro` n blueprints are sampled,
    and all rollouts follow the one that the model is most confident in. A turn that contains `done` moves on to the
    next subgoal, unless the world refuses its action.
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
        refuse_settings(self, self.draw, "format")
        _ = self.format

    @property
    def format(self) -> Blueprint:
        """A blueprint as the first turn, then the turns that follow it."""
        return Blueprint(plan=self.ask, show=self.show, done=self.done)

    def plan(self, task: TaskRequest) -> Plan:
        format = self.format
        play = self.draw.play(replace(task, format=format), self.n)
        if self.phase == "macro":
            return rollouts_of((yield [play]))
        draft = replace(play, wrap=partial(DraftEpisode, format=format), purpose=Purpose.probe, first=self.n)
        drafts: list[Rollout] = rollouts_of((yield [draft]))
        best = drafts[self.chosen([list(r.turns[0].tokens["sampler.logp"]) for r in drafts])]
        follow = partial(PlannedEpisode, format=format, blueprint=str(best.columns["text"]))
        rollouts = rollouts_of((yield [replace(play, wrap=follow, wave=1)]))
        return [*rollouts, *drafts]

    def chosen(self, logp: list[list[float]]) -> int:
        """The index of the blueprint to follow, from the log-probabilities of their tokens; the first of equals."""
        return 0 if self.choice == "first" else max(range(len(logp)), key=lambda i: mean_log_probability(logp[i]))
