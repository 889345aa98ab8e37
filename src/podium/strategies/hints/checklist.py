"""Help from a checklist: what an answer lacks."""

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
    """What each criterion of the task is worth, and whether the rollout meets it."""
    assert task.world is not None
    points = [criterion.points for criterion in task.world.criteria(task.task)]
    return points, task.world.met(task.task, str(rollout.columns["text"]))


def rubric_share(task: TaskRequest, rollout: Rollout) -> float:
    """Its part of all points."""
    return float(score(*(torch.tensor(x, dtype=torch.float64) for x in checklist(task, rollout))))


def failed(task: TaskRequest, rollout: Rollout) -> list[int]:
    """The criteria that a rollout does not meet, by number."""
    points, met = checklist(task, rollout)
    return [number for number, (worth, is_met) in enumerate(zip(points, met, strict=True)) if is_met != (worth > 0)]


class BestAttempt(Help):
    """The best rollout as an attempt to do better, with the criteria that it misses as a hint; of equals the first."""

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
