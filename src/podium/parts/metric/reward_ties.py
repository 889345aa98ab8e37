"""How near a reward is to a cliff: ties among the answers to a task, and what a small change of the reward does.

The functions take rewards [state, action] of the answers (actions) to tasks (states); −inf stands where a task has
fewer answers than others.
"""

from __future__ import annotations

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import within
from podium.core.part import Columns, Metric, Need
from podium.core.schedule import Number

__all__ = [
    "RewardTies",
    "bound_holds",
    "effective_reward",
    "hard_policy",
    "optimal_actions",
    "optimal_counts",
    "reward_gap",
    "reward_shift",
    "soft_policy",
    "stable_variation",
    "total_variation",
]


def optimal_actions(reward: Tensor, tolerance: float = 1e-9) -> Tensor:
    """[state, action] whether an action is within the tolerance of the best."""
    return (reward >= reward.amax(-1, keepdim=True) - tolerance) & reward.isfinite()


def optimal_counts(reward: Tensor, tolerance: float = 1e-9) -> Tensor:
    """[state] how many actions are optimal."""
    return optimal_actions(reward, tolerance).sum(-1)


def reward_gap(reward: Tensor) -> Tensor:
    """[state] the best reward minus the second best: 0 at a tie, inf where there is one action."""
    if reward.shape[-1] < 2:
        return torch.full_like(reward.amax(-1), torch.inf)
    best, second = reward.topk(2, dim=-1).values.unbind(-1)
    return best - second


def hard_policy(reward: Tensor, tolerance: float = 1e-9) -> Tensor:
    """[state, action] uniform over the optimal actions."""
    optimal = optimal_actions(reward, tolerance).to(reward.dtype)
    return optimal / optimal.sum(-1, keepdim=True)


def soft_policy(reward: Tensor, alpha: float) -> Tensor:
    """[state, action] softmax(reward / α), the optimum with an entropy bonus of weight α."""
    return ((reward - reward.amax(-1, keepdim=True)) / alpha).softmax(-1)


def total_variation(one: Tensor, other: Tensor) -> Tensor:
    """[state] ½ Σ |π₁(a) − π₂(a)|."""
    return (one - other).abs().sum(-1) / 2


def reward_shift(one: Tensor, other: Tensor) -> Tensor:
    """‖R₁ − R₂‖∞ over the answers that there are."""
    shift = (one - other).where(one.isfinite(), 0).abs()
    return shift.max() if shift.numel() else shift.sum()


def stable_variation(shift: Tensor, alpha: float, gamma: float = 0.0) -> Tensor:
    """‖R₁ − R₂‖∞ / (2 α (1 − γ)), which the variation of soft policies does not exceed."""
    return shift / (2 * alpha * (1 - gamma))


def bound_holds(variation: Tensor, bound: Tensor) -> Tensor:
    """[state] whether policies are as near to each other as the bound says, up to rounding."""
    return variation <= bound + 1e-12


def effective_reward(weights: Tensor, rewards: Tensor) -> Tensor:
    """[state, action] Σ_k w_k(s) · R_k(s, a), from weights [state, k] and rewards [k, state, action]."""
    return (weights.T[:, :, None] * rewards).sum(0)


class RewardTies(Metric):
    """Reports how near the reward is to a cliff, over the distinct answers to each task, each with its mean reward.

    `ties.share` is the share of tasks with several optimal answers, `ties.gap` the median gap between the best and the
    second best (of tasks with several answers; NaN without any). At a tie the optimal policy jumps: any small change of
    the reward picks among the tied answers.

    With an `extra` column e, the reward R is held against R + weight · e: `ties.hard_tv` and `ties.soft_tv` are the
    mean total variation between the optimal policies of both, without and with an entropy bonus α, and `ties.bound` is
    ‖R₁ − R₂‖∞ / 2α, which the second never exceeds.
    """

    reference = "The Policy Cliff: A Theoretical Analysis of Reward-Policy Maps in Large Language Models"
    reward: str = "rollout.reward"
    extra: str | None = None  # a column of rollouts that breaks ties, such as rollout.length; None: only gap and ties
    weight: Number = 0.01  # of the extra column
    alpha: Number = 0.1  # weight of the entropy bonus of the soft policies
    tolerance: Number = 1e-6  # rewards this near to the best are tied

    def __post_init__(self) -> None:
        within(self, "alpha", 0, open_low=True)
        within(self, "tolerance", 0)

    @property
    def needs(self) -> tuple[Need, ...]:
        return (self.reward, "rollout.answer", *(() if self.extra is None else (self.extra,)))

    @property
    def provides(self) -> tuple[str, ...]:
        compared = () if self.extra is None else ("batch.ties.hard_tv", "batch.ties.soft_tv", "batch.ties.bound")
        return ("batch.ties.share", "batch.ties.gap", *compared)

    def tables(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """[group, answer] the mean reward of each distinct answer, and that with the extra column."""
        plain = batch[self.reward].to(batch.dtype)
        extra = torch.zeros_like(plain) if self.extra is None else batch[self.extra].to(batch.dtype)
        answers = batch.by("rollout", "group", "rollout.answer")
        groups, there = answers.by("group"), answers.agg.count() > 0
        place = groups.rank(torch.zeros(answers.cells, device=batch.device))  # 0, 1, 2, … within its group
        means = torch.stack([answers.agg.mean(plain), answers.agg.mean(extra)])[:, there]
        weights = plain.new_tensor([1.0, float(self.weight)]).expand(means.shape[1], 2)
        mixed = effective_reward(weights, means[:, :, None])[:, 0]
        blank = plain.new_full((groups.cells, int(groups.lengths().max())), -torch.inf)
        where = (groups.index[there], place[there].long())
        return blank.index_put(where, means[0]), blank.index_put(where, mixed)

    def __call__(self, batch: Batch) -> Columns:
        one, other = self.tables(batch)
        seen = one.isfinite().any(-1)
        one, other = one[seen], other[seen]
        tied = optimal_counts(one, self.tolerance) > 1
        several = one.isfinite().sum(-1) > 1
        found = [tied.to(batch.dtype).mean(), reward_gap(one)[several].quantile(0.5) if several.any() else None]
        if self.extra is not None:
            hard = total_variation(hard_policy(one, self.tolerance), hard_policy(other, self.tolerance))
            soft = total_variation(soft_policy(one, self.alpha), soft_policy(other, self.alpha))
            found += [hard.mean(), soft.mean(), stable_variation(reward_shift(one, other), self.alpha)]
        nan = torch.full((), torch.nan, dtype=batch.dtype, device=batch.device)
        return {name: (nan if x is None else x).reshape(1) for name, x in zip(self.provides, found, strict=True)}
