"""Help from a rubric: the criteria that an answer does not meet."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from podium.core.build import Rollout
from podium.parts.reward.rubric import score
from podium.protocols.scaffold import Scaffold
from podium.strategies.hints.help import Asking, Help, Offer
from podium.strategies.requests import TaskRequest

__all__ = ["BestAttempt", "checklist", "failed", "rubric_share"]


def checklist(task: TaskRequest, rollout: Rollout) -> tuple[list[float], tuple[bool, ...]]:
    """The points of each criterion of the task, and whether the rollout meets it."""
    assert task.world is not None
    points = [criterion.points for criterion in task.world.criteria(task.task)]
    judged = rollout.columns.get("met")  # by a model
    return points, task.world.met(task.task, str(rollout.columns["text"])) if judged is None else judged


def rubric_share(task: TaskRequest, rollout: Rollout) -> float:
    """The rubric score of a rollout: its share of all points."""
    return float(score(*(torch.tensor(x, dtype=torch.float64) for x in checklist(task, rollout))))


def failed(task: TaskRequest, rollout: Rollout) -> list[int]:
    """The numbers of the criteria that a rollout fails: positive ones not met, negative ones met."""
    points, met = checklist(task, rollout)
    return [i for i, (value, is_met) in enumerate(zip(points, met, strict=True)) if is_met != (value > 0)]


class BestAttempt(Help):
    """The group's best rollout as an attempt to improve on, with the criteria that it fails as a hint."""

    reference = "RGR-GRPO: Reward and Guidance through Rubrics"
    criteria: bool = True  # False: the attempt alone

    needs = ("task.criteria",)

    def offer(self, task: TaskRequest, group: Sequence[Rollout]) -> Asking:
        yield from ()
        assert task.world is not None
        best = max(group, key=lambda r: rubric_share(task, r))
        texts = [criterion.text for criterion in task.world.criteria(task.task)]
        hint = "\n".join(texts[number] for number in failed(task, best)) if self.criteria else ""
        return Offer([Scaffold(hint, attempt=str(best.columns["text"]))])
