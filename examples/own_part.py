"""An advantage of your own in GRPO: leave-one-out, shrunk towards zero in small groups. The battery checks it first.

python examples/own_part.py
"""

from __future__ import annotations

import podium
from podium import Advantage, Batch, methods, testing
from podium.core.part import Columns


class ShrunkLeaveOneOut(Advantage):
    """A = n / (n + k) · (r − mean of the other rollouts of the group); k = 0 is RLOO."""

    k: float = 2.0  # pseudo-rollouts
    needs = ("rollout.reward",)
    provides = ("rollout.advantage",)

    def __call__(self, batch: Batch) -> Columns:
        reward, groups = batch["rollout.reward"], batch.by("rollout", "group")
        n = groups.count().to(batch.dtype)
        shrink = n / (n + self.k).clamp(min=1)  # a group in which no rollout counts has n = 0
        return {"rollout.advantage": shrink * (reward - groups.leave_one_out(reward))}


def main(iterations: int = 20, out: str | None = None) -> None:
    testing.check(ShrunkLeaveOneOut)  # raises with reasons if the part is not sound
    method = methods.grpo(kl=0.0) | ShrunkLeaveOneOut(k=1.0)
    print(*method.check(), sep="\n")
    result = podium.train(method, world="sums", iterations=iterations, out=out)
    print(f"held-out pass@1 {result.evaluations[-1]['eval.pass@1']:.3f}")


if __name__ == "__main__":
    main()
