"""Tasks without labels that learn like tasks with labels: their rates of success over time have the same shape."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.part import Columns, Shape

__all__ = ["MatchTrajectories", "trajectory_similarity"]


FLAT = 1e-8  # a curve that moves by less does so by rounding alone


def trajectory_similarity(curves: Tensor, references: Tensor) -> Tensor:
    """[curve] the mean over the references of the correlation of two curves over time, each [curve, epoch].

    It is the cosine of the standardised curves. A curve that never moves is like no other: 0.
    """

    def unit(x: Tensor) -> Tensor:
        centred = x - x.mean(1, keepdim=True)
        length = centred.norm(dim=1, keepdim=True)
        return torch.where(length > FLAT, centred / length.clamp(min=FLAT), 0)

    if not len(references):
        return curves.new_zeros(len(curves))
    return (unit(curves) @ unit(references).T).mean(1)


class MatchTrajectories(Shape):
    """`group.weight.matched`: 1 for tasks with a label and for those without that match, else 0.

    A task matches if its similarity to the curves of labelled tasks exceeds `tau`, or is among the highest max(1,
    ⌊top · c⌋) of the c unlabelled groups. Before any curve has `warmup` entries no unlabelled task is trained. Weights
    stay in the denominator.
    """

    reference = "TraPO: Semi-Supervised RLVR, https://github.com/ShenzhiYang2000/TRAPO"
    tau: float = 0.4  # below −1: every unlabelled task
    top: float = 0.1  # share of the unlabelled groups
    warmup: int = 8  # visits
    match: bool = True  # False: all unlabelled tasks, from the start

    needs = ("rollout.reward", "group.labelled", "group.curve", "batch.references")
    provides = ("group.weight.matched", "group.similarity", "group.top")

    def __post_init__(self) -> None:
        within(self, "top", 0, 1)
        within(self, "warmup", 1)

    def chosen(self, similarity: Tensor, ties: Tensor | None = None) -> tuple[list[int], list[int]]:
        """The numbers of the highest ones, best first; and of all that are selected, in order."""
        count = len(similarity)
        order = sorted(range(count), key=lambda i: (-float(similarity[i]), i if ties is None else int(ties[i])))
        best = order[: max(1, math.floor(self.top * count))]
        return best, sorted({*best, *(i for i in range(count) if float(similarity[i]) > self.tau)})

    def __call__(self, batch: Batch) -> Columns:
        known, given = batch["group.curve"], batch["group.labelled"]
        now = batch.by("rollout", "group").agg.mean(batch["rollout.reward"])
        curves = [(*curve, float(x)) for curve, x in zip(known, now.tolist(), strict=True)]
        references = [*batch["batch.references"][0], *(c for c, own in zip(curves, given.tolist(), strict=True) if own)]
        alike = torch.zeros(len(curves), dtype=batch.dtype, device=batch.device)
        for number in (~given).nonzero().reshape(-1).tolist():
            curve = curves[number]
            same = [r for r in references if len(r) == len(curve)]  # others were visited less often
            both = (torch.tensor(x, dtype=torch.float64).reshape(-1, len(curve)) for x in ([curve], same))
            alike[number] = trajectory_similarity(*both)[0]
        free = (~given).nonzero().reshape(-1)
        weight, top = given.to(batch.dtype), torch.zeros_like(given)
        warm = max((len(curve) for curve in curves), default=0) >= self.warmup
        if not self.match:
            weight = torch.ones_like(weight)
        elif warm and len(free):
            best, selected = self.chosen(alike[free], batch.identity("group")[free])
            weight[free[selected]], top[free[best]] = 1, True
        return {"group.weight.matched": weight, "group.similarity": alike, "group.top": top}
