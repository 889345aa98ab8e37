"""Advantages from pairwise preferences, without pointwise rewards."""

from __future__ import annotations

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.cells import overflow_safe
from podium.core.errors import within
from podium.core.part import Advantage, Columns

__all__ = ["PairwiseDifferences"]


class PairwiseDifferences(Advantage):
    """Normalises the mean pairwise difference of a rollout to the others of its group, as a reward model judges pairs.

        A_i = (1/G) Σ_j d_ij / sqrt(Σ_{i,j} d_ij² / (2 G (G − 1)) + ε)

    The relation `pair` holds each unordered pair once, with `difference` d = r_left − r_right; the sums run over
    ordered pairs. If d_ij = r_i − r_j for some scores r, this is GRPO with ε inside the root.
    """

    reference = "Think-RM, https://github.com/IlgeeHong/Think-RM"
    epsilon: float = 1e-6  # ε, ≥ 0

    needs = ("pair.difference",)
    provides = ("rollout.advantage",)

    def __post_init__(self) -> None:
        within(self, "epsilon", 0)

    def __call__(self, batch: Batch) -> Columns:
        pair, n = batch.relation("pair"), len(batch)
        d = pair["difference"]
        groups = batch.by("rollout", "group")
        size = groups.count().clamp(min=1).to(d.dtype)
        counted = batch.counted("rollout")
        weight = torch.ones_like(size) if counted is None else counted.to(d.dtype)  # 0: not compared with
        left, right = weight[pair.left], weight[pair.right]
        mean = (pair.sum(d * right, "left", n) - pair.sum(d * left, "right", n)) / size

        # Each unordered pair stands for two ordered ones: it is counted at each of its two rollouts.
        def rms(d: Tensor) -> Tensor:
            square = groups.sum(pair.sum(d.square() * right, "left", n) + pair.sum(d.square() * left, "right", n))
            return (square / (2 * size * (size - 1).clamp(min=1)) + self.epsilon).sqrt()

        spread = overflow_safe(rms, d)
        return {"rollout.advantage": mean / spread.where(spread > 0, spread.new_ones(()))}
