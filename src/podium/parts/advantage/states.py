"""Step-level credit from anchor states: states that several rollouts of a task visit."""

from __future__ import annotations

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import one_of, within
from podium.core.normalize import Normalizer
from podium.core.part import Advantage, Columns
from podium.core.schedule import Number
from podium.core.text_similarity import clusters

__all__ = ["GroupInGroup", "NestedHistories"]


def discounted_returns(batch: Batch, gamma: Number, penalty: str | None = None) -> Tensor:
    """[step] The discounted reward to go, less the penalty of the step alone."""
    returns = batch.scan(batch["step.reward"], "step", "rollout", decay=gamma)
    return returns if penalty is None else returns - batch[penalty]


class GroupInGroup(Advantage):
    """Group-in-group advantages: A = A_episode + omega · A_step.

    A_episode compares the outcomes of the rollouts of a group; A_step compares the discounted returns of all the
    group's steps from the same anchor state, or with `similarity` from states with similar texts. omega = 0 is GRPO.
    """

    reference = "GiGPO, https://arxiv.org/abs/2505.10978"
    gamma: Number = 0.95  # discount per step, in [0, 1]
    omega: Number = 1.0  # weight of the step advantage
    scale: str = "none"  # of both comparisons: none or std
    rows: str = "step"  # what counts once in the episode's mean: each step (as released) or each rollout (as published)
    similarity: float | None = None  # least ratio of matching characters, 0.95 as released; None: equal states
    epsilon: float = 1e-6  # ≥ 0
    penalty: str | None = None  # a column of steps that is subtracted from the outcome and return of that step alone

    provides = ("step.advantage",)

    def __post_init__(self) -> None:
        within(self, "gamma", 0, 1)
        within(self, "similarity", 0, 1, open_low=True, optional=True)
        one_of(self, "scale", ("none", "std"))
        one_of(self, "rows", ("step", "rollout"))
        within(self, "epsilon", 0)

    @property
    def needs(self) -> tuple[str, ...]:
        return ("rollout.reward", "step.reward", "step.state", *(() if self.penalty is None else (self.penalty,)))

    @property
    def normalizes(self) -> bool:
        return self.scale != "none"

    def returns(self, batch: Batch) -> Tensor:
        """[step] The discounted reward to go, less the penalty of the step."""
        return discounted_returns(batch, self.gamma, self.penalty)

    def episode(self, batch: Batch) -> Tensor:
        """[step] A_episode. With a penalty, each rollout counts once by its first step if `rows` are rollouts."""
        normalizer = Normalizer(scale=self.scale, epsilon=self.epsilon, singleton="raw")
        if self.penalty is not None:
            outcome = batch.spread(batch["rollout.reward"], "rollout", "step") - batch[self.penalty]
            where = None if self.rows == "step" else batch.first("step", "rollout")
            return normalizer.normalized(batch.by("step", "group", where=where), outcome)
        outcome = batch.spread(batch["rollout.reward"], "rollout", self.rows)
        advantage = normalizer.normalized(batch.by(self.rows, "group"), outcome)
        return batch.spread(advantage, self.rows, "step")

    def __call__(self, batch: Batch) -> Columns:
        normalizer = Normalizer(scale=self.scale, epsilon=self.epsilon, singleton="zero")
        state = "step.state" if self.similarity is None else self._similar_states(batch, self.similarity)
        step = normalizer.normalized(batch.by("step", "group", state), self.returns(batch))
        return {"step.advantage": self.episode(batch) + self.omega * step}

    @staticmethod
    def _similar_states(batch: Batch, similarity: float) -> Tensor:
        """[step] The cluster of its state in the group; a state joins the first cluster with a similar first member."""
        texts: tuple[str, ...] = batch["step.state"]
        # In the order of rollout and step, so that the result does not depend on the order of rows.
        element, group, _ = batch.by("step", "group").sort(torch.zeros(len(texts), device=batch.device))
        cluster = torch.zeros(len(texts), dtype=torch.long, device=batch.device)
        for g in range(batch.size("group")):
            steps = element[group == g]
            numbers = clusters([texts[i] for i in steps.tolist()], similarity)
            cluster[steps] = torch.tensor(numbers, dtype=torch.long, device=batch.device)
        return cluster


class NestedHistories(Advantage):
    """Hierarchy-of-groups advantages: a step is compared with those that share its last k states, k = 1 … history + 1.

        A = Σ_k w_k A_k,  A_k = (G − mean) / (std + ε),  w_k ∝ (k + 1)^alpha

    A_k is over the steps of the group with the same last k states, at least two of them; the weights are normalised
    over the comparisons that a step has. A return that equals its mean up to rounding gets 0. history = 0 compares
    steps from the same state alone.
    """

    reference = "HGPO, https://github.com/langfengQ/verl-agent"
    gamma: Number = 0.95  # discount per step, in [0, 1]
    history: int = 2  # earlier states, ≥ 0
    scale: str = "std"  # std (population) or none
    alpha: Number = 1.0  # how much longer histories weigh; 0: all alike
    drop_zero: bool = True  # whether comparisons that are exactly 0 are left out of the weights
    base_group: bool = False  # whether the comparison of whole rollouts is added as k = 0
    epsilon: float = 1e-6  # ≥ 0
    penalty: str | None = None  # a column of steps that is subtracted from the return (and outcome) of that step alone

    provides = ("step.advantage",)

    def __post_init__(self) -> None:
        within(self, "gamma", 0, 1)
        within(self, "history", 0)
        one_of(self, "scale", ("none", "std"))
        within(self, "epsilon", 0)

    @property
    def needs(self) -> tuple[str, ...]:
        penalty = () if self.penalty is None else (self.penalty,)
        return ("step.reward", "step.state", *(("rollout.reward",) if self.base_group else ()), *penalty)

    @property
    def normalizes(self) -> bool:
        return self.scale != "none"

    def returns(self, batch: Batch) -> Tensor:
        """[step] The discounted reward to go, less the penalty of the step."""
        return discounted_returns(batch, self.gamma, self.penalty)

    def __call__(self, batch: Batch) -> Columns:
        returns = self.returns(batch)
        total, weights = torch.zeros_like(returns), torch.zeros_like(returns)
        for k, advantage, available in self._comparisons(batch, returns):
            if self.drop_zero:
                available = available & (advantage != 0)
            weight = (k + 1.0) ** self.alpha * available
            total, weights = total + weight * advantage, weights + weight
        # A step without any comparison has weight 0, and advantage 0 whatever epsilon is.
        return {"step.advantage": total / (weights + self.epsilon).where(weights > 0, 1.0)}

    def _comparisons(self, batch: Batch, returns: Tensor) -> list[tuple[int, Tensor, Tensor]]:
        """(k, advantage, whether a step has it) for each length of history."""
        normalizer = Normalizer(scale=self.scale, unbiased=False, epsilon=self.epsilon, singleton="zero")
        comparisons = []
        if self.base_group:
            episode = GroupInGroup(scale=self.scale, epsilon=self.epsilon, penalty=self.penalty).episode(batch)
            comparisons.append((0, episode, torch.ones_like(returns, dtype=torch.bool)))
        for k in range(1, self.history + 2):
            codes, enough = batch.history("step", "step.state", k)
            same = batch.by("step", "group", codes, where=enough)
            advantage = normalizer.normalized(same, returns)
            # A return at the mean is 0 whatever rounding makes of it: `drop_zero` must not depend on the last bit.
            rounding = 8 * torch.finfo(returns.dtype).eps * same.max(returns.abs())
            advantage = advantage.masked_fill(same.centre(returns).abs() <= rounding, 0.0)
            comparisons.append((k, advantage, enough & (same.count() > 1)))
        return comparisons
