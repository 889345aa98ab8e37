"""Rewards for questions: how much entropy their answers remove from a belief over what is wanted."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

import torch

from podium.core.batch import Batch
from podium.core.errors import one_of
from podium.core.part import Columns, Reward

__all__ = ["BeliefGain", "belief_after", "belief_entropy"]

Belief = Sequence[Sequence[float]]  # for each attribute the probability of each value


def belief_entropy(belief: Belief) -> float:
    """Σ_a H(b_a) in bits."""
    return sum(-p * math.log2(p) for values in belief for p in values if p > 0)


def belief_after(belief: Belief, allowed: Mapping[int, Sequence[int]]) -> Belief:
    """The belief given the values that are still allowed, by attribute. Where none of them was possible, an answer
    contradicts what was known, and the belief about that attribute stays."""
    after = list(belief)
    for attribute, kept in allowed.items():
        masses = [p if value in kept else 0.0 for value, p in enumerate(belief[attribute])]
        if (total := sum(masses)) > 0:
            after[attribute] = [p / total for p in masses]
    return after


class BeliefGain(Reward):
    """Writes `turn.reward.gain`: the entropy that a turn removes from the belief, as a share of that at the start.

        r_t = (H_{t−1} − H_t) / H_0,  H the sum over attributes of the entropy of the belief

    Gains of a rollout sum to (H_0 − H_T) / H_0 ≤ 1. By `bits` they are not divided; by `resolved` a turn counts the
    attributes that it has settled. `turn.asking` marks the turns that ask. The reward of the rollout stays as it is.
    """

    reference = "Nous, https://arxiv.org/abs/2510.27410"
    unit: str = "share"  # share, bits or resolved

    needs = ("rollout.belief", "turn.allowed", "turn.asked")
    provides = ("turn.reward.gain", "turn.asking", "rollout.uncertainty")

    def __post_init__(self) -> None:
        one_of(self, "unit", ("share", "bits", "resolved"))

    def path(self, prior: Belief, answers: Sequence[Mapping[int, Sequence[int]]]) -> tuple[list[float], Belief]:
        """The entropies before the first and after each answer, and the belief in the end."""
        belief, entropies = prior, [belief_entropy(prior)]
        for allowed in answers:
            belief = belief_after(belief, allowed)
            entropies.append(belief_entropy(belief))
        return entropies, belief

    def gains(self, prior: Belief, answers: Sequence[Mapping[int, Sequence[int]]]) -> list[float]:
        """The reward of each turn."""
        if self.unit == "resolved":
            settled = [sum(max(b) == 1 for b in self.path(prior, answers[:n])[1]) for n in range(len(answers) + 1)]
            return [float(b - a) for a, b in pairwise(settled)]
        entropies, _ = self.path(prior, answers)
        scale = entropies[0] if self.unit == "share" else 1.0
        return [(a - b) / scale if scale else 0.0 for a, b in pairwise(entropies)]

    def __call__(self, batch: Batch) -> Columns:
        answers: list[list[Mapping[int, Sequence[int]]]] = [[] for _ in range(len(batch))]
        for rollout, allowed in zip(batch.link("turn", "rollout").tolist(), batch["turn.allowed"], strict=True):
            answers[rollout].append(dict(allowed))
        priors = batch["rollout.belief"]
        gains = [iter(self.gains(prior, said)) for prior, said in zip(priors, answers, strict=True)]
        by_turn = [next(gains[rollout]) for rollout in batch.link("turn", "rollout").tolist()]
        left = [self.path(prior, said)[0][-1] for prior, said in zip(priors, answers, strict=True)]
        return {
            "turn.reward.gain": torch.tensor(by_turn, dtype=batch.dtype, device=batch.device),
            "turn.asking": torch.tensor([bool(asked) for asked in batch["turn.asked"]], device=batch.device),
            "rollout.uncertainty": torch.tensor(left, dtype=batch.dtype, device=batch.device),
        }
