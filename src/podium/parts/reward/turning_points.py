"""Rewards of steps: what each step has gained, and where it turned a rollout, all that was gained from there on."""

from __future__ import annotations

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.part import Columns, Reward

__all__ = ["TurningPoints"]


class TurningPoints(Reward):
    """With R_t the score after step t, R_0 = `rollout.score` and Δ = R_n − R_0, step t earns d_t = R_t − R_{t−1}.

    A turning point earns B_t = R_n − R_{t−1} instead, unless that is 0. Step t is one if it goes the way of Δ, the step
    before it went the other way, and what follows it goes on: sign(d_t) = sign(R_n − R_t); of the first step only the
    last is asked. Without `consistent` the last is asked of no step, and the first must go the way of Δ.

    With `balance`, of the turning points of the batch whose Δ is positive and of those whose Δ is negative, as many are
    kept as there are of the rarer kind, those with the largest |Δ|; where there is only one kind, all.
    Without turning points the rewards of a rollout sum to Δ. `token.turning` marks them, `token.gained` is d, and
    `token.place` counts the steps of a rollout.
    """

    reference = "TP-GRPO, https://github.com/YunzeTong/TurningPoint-GRPO"
    turning: bool = True  # False: every step earns d
    consistent: bool = True  # whether what follows a turning point must go the same way
    balance: bool = True

    needs = ("token.score", "rollout.score")
    provides = ("token.reward.step", "token.gained", "token.turning", "token.place")

    @property
    def neutral(self) -> TurningPoints:
        return self.replace(turning=False)

    def __call__(self, batch: Batch) -> Columns:
        score, steps = batch["token.score"], batch.action
        first = batch.first("token", "rollout", where=steps)
        start, rollouts = batch["rollout.score"], batch.partition("token", "rollout")
        end = rollouts.agg.sum(score.where(batch.last("token", "rollout", where=steps), 0))
        before = torch.where(first, rollouts.spread(start), _of_step_before(batch, score))
        trend, end = rollouts.spread(end - start), rollouts.spread(end)
        gained, left = score - before, end - before
        along = gained.sign() * trend.sign()
        goes_on = gained.sign() * (end - score).sign() > 0
        turned = (_of_step_before(batch, along) < 0) & (along > 0)
        if self.consistent:
            turns = torch.where(first, goes_on, turned & goes_on)
        else:
            turns = torch.where(first, along > 0, turned)
        turns = turns & steps if self.turning else torch.zeros_like(turns)
        if self.balance:
            turns = self._balanced(batch, turns, trend)
        return {
            "token.reward.step": torch.where(turns & (left != 0), left, gained),
            "token.gained": gained,
            "token.turning": turns,
            "token.place": batch.scan(steps.long(), "token", "rollout", reverse=False) - 1,
        }

    def _balanced(self, batch: Batch, turns: Tensor, trend: Tensor) -> Tensor:
        """[token] the turning points that are kept."""
        everything, counted = batch.partition("token", "batch"), batch.counted("token")
        among = turns if counted is None else turns & counted
        kinds = [among & (trend > 0), among & (trend < 0)]
        few = min(int(kind.sum()) for kind in kinds)
        if few == 0:
            return turns
        kept = turns & ~(kinds[0] | kinds[1])
        for kind in kinds:
            order = everything.rank(-trend.abs(), kind)
            kept |= kind & (order >= 0) & (order < few)
        return kept


def _of_step_before(batch: Batch, x: Tensor) -> Tensor:
    """[token] the value of the model's token before each, in the same rollout; 0 where there is none."""
    steps = batch.action
    latest = batch.scan(x.where(steps, 0), "token", "rollout", decay=(~steps).to(x.dtype), reverse=False)
    return batch.shift(latest, "token", "rollout")
