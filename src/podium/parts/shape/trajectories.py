"""Semi-supervised selection: unlabelled tasks whose pass rates evolve like those of labelled tasks."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.facts import RunFacts
from podium.core.part import Columns, Shape
from podium.core.schedule import Count

__all__ = ["MatchTrajectories", "trajectory_similarity"]


FLAT = 1e-8  # a smaller change of a curve is rounding error


def trajectory_similarity(curves: Tensor, references: Tensor) -> Tensor:
    """[curve] the mean correlation over time with the references; both are [curve, epoch].

    It is the cosine of the standardised curves; 0 for a constant curve.
    """

    def unit(x: Tensor) -> Tensor:
        centred = x - x.mean(1, keepdim=True)
        length = centred.norm(dim=1, keepdim=True)
        return torch.where(length > FLAT, centred / length.clamp(min=FLAT), 0)

    if not len(references):
        return curves.new_zeros(len(curves))
    return (unit(curves) @ unit(references).T).mean(1)


class MatchTrajectories(Shape):
    """Trajectory matching: `group.weight.matched` is 1 for labelled tasks and for unlabelled ones that match, else 0.

    A task matches if the similarity of its pass-rate curve to those of labelled tasks exceeds `tau`, or is among the
    max(1, ⌊top · c⌋) highest of the c unlabelled groups. Until a curve has `warmup` entries, no unlabelled task is
    trained. Groups of weight 0 stay in the denominator.
    """

    reference = "TraPO: Semi-Supervised RLVR, https://github.com/ShenzhiYang2000/TRAPO"
    tau: float = 0.4  # a correlation; below −1: every unlabelled task matches
    top: float = 0.1  # share of the unlabelled groups, in [0, 1]
    warmup: Count = 8  # visits of a task
    match: bool = True  # False: all unlabelled tasks are trained from the start

    needs = ("rollout.reward", "group.labelled", "group.curve", "batch.references")
    provides = ("group.weight.matched", "group.similarity", "group.top")

    def __post_init__(self) -> None:
        within(self, "top", 0, 1)
        within(self, "warmup", 1)

    @property
    def neutral(self) -> MatchTrajectories:
        return self.replace(match=False)

    def inert(self, facts: RunFacts) -> Iterable[str]:
        visits = facts.iterations * facts.tasks // facts.pool if facts.tasks_come_back and facts.pool else 1
        if self.match and self.warmup > visits:
            yield (
                f"trains on no task without a label before visit {self.warmup}, and this run visits each task {visits} "
                "times: train longer, set a smaller pool, or a shorter warmup."
            )

    def chosen(self, similarity: Tensor, ties: Tensor | None = None) -> tuple[list[int], list[int]]:
        """The numbers of the top tasks, best first, and of all that match, in order."""
        count = len(similarity)
        order = sorted(range(count), key=lambda i: (-float(similarity[i]), i if ties is None else int(ties[i])))
        best = order[: max(1, math.floor(self.top * count))]
        return best, sorted({*best, *(i for i in range(count) if float(similarity[i]) > self.tau)})

    def __call__(self, batch: Batch) -> Columns:
        past, labelled = batch["group.curve"], batch["group.labelled"]
        now = batch.by("rollout", "group").agg.mean(batch["rollout.reward"])
        curves = [(*curve, float(x)) for curve, x in zip(past, now.tolist(), strict=True)]
        with_label = [curve for curve, label in zip(curves, labelled.tolist(), strict=True) if label]
        references = [*batch["batch.references"][0], *with_label]
        similarity = torch.zeros(len(curves), dtype=batch.dtype, device=batch.device)
        unlabelled = (~labelled).nonzero().reshape(-1)
        for number in unlabelled.tolist():
            curve = curves[number]
            # Only curves of the same length can be compared: other tasks have been visited more or less often.
            alike = [r for r in references if len(r) == len(curve)]
            both = (torch.tensor(x, dtype=torch.float64).reshape(-1, len(curve)) for x in ([curve], alike))
            similarity[number] = trajectory_similarity(*both)[0]
        weight, top = labelled.to(batch.dtype), torch.zeros_like(labelled)
        warm = max((len(curve) for curve in curves), default=0) >= self.warmup
        if not self.match:
            weight = torch.ones_like(weight)
        elif warm and len(unlabelled):
            best, selected = self.chosen(similarity[unlabelled], batch.identity("group")[unlabelled])
            weight[unlabelled[selected]], top[unlabelled[best]] = 1, True
        return {"group.weight.matched": weight, "group.similarity": similarity, "group.top": top}
