"""Rewards for tool calls that match those of a reference trajectory."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import one_of, within
from podium.core.part import Columns, Reward

__all__ = ["MatchCalls", "assign_best", "assign_greedily", "call_similarity", "token_f1", "transport"]

Call = Mapping[str, Any]  # `name`, and `arguments` by name


def call_similarity(call: Call, reference: Call) -> float:
    """(1 + J + right values) / (2 + number of reference arguments); 0 if the names differ, ignoring case.

    J is the Jaccard similarity of the argument names, 1 if neither call has any.
    """
    if str(call["name"]).lower() != str(reference["name"]).lower():
        return 0.0
    arguments, expected = dict(call.get("arguments") or {}), dict(reference.get("arguments") or {})
    shared = len(arguments.keys() & expected.keys())
    names = 1.0 if arguments.keys() == expected.keys() else shared / (len(arguments) + len(expected) - shared)
    values = sum(bool(k in arguments and arguments[k] == v) for k, v in expected.items())
    return (1 + names + values) / (2 + len(expected))


def assign_greedily(similarity: Tensor) -> list[int]:
    """The reference of each call, −1 for none, by greedy matching: the most similar free pair first."""
    calls, references = similarity.shape
    chosen = [-1] * calls
    order = similarity.reshape(-1).argsort(descending=True, stable=True).tolist()
    for call, reference in (divmod(place, references) for place in order):
        if chosen[call] < 0 and reference not in chosen and similarity[call, reference] > 0:
            chosen[call] = reference
    return chosen


def assign_best(similarity: Tensor) -> list[int]:
    """The reference of each call, −1 for none, by the matching of maximal total similarity (Hungarian algorithm)."""
    from scipy.optimize import linear_sum_assignment  # type: ignore[import-untyped]

    chosen = [-1] * len(similarity)
    for call, reference in zip(*linear_sum_assignment(similarity.numpy(), maximize=True), strict=True):
        if similarity[call, reference] > 0:
            chosen[call] = int(reference)
    return chosen


def transport(similarity: Tensor, regularization: float = 0.1, rounds: int = 10_000) -> Tensor:
    """[call, reference] The entropy-regularised optimal transport plan between uniform weights (Sinkhorn)."""
    calls, references = similarity.shape
    score = similarity.double() / regularization
    row, column = score.new_full((calls, 1), -math.log(calls)), score.new_full((1, references), -math.log(references))
    v = torch.zeros_like(column)
    for _ in range(rounds):
        u = row - (score + v).logsumexp(1, keepdim=True)
        new = column - (score + u).logsumexp(0, keepdim=True)
        converged = bool((new - v).abs().max() < 1e-13)
        v = new
        if converged:
            break
    return (score + u + v).exp()


def token_f1(answer: str, reference: str) -> float:
    """The F1 score of two texts as sets of words, ignoring case and punctuation."""
    words, expected = (set(re.sub(r"[^\w\s]|_", " ", text.lower()).split()) for text in (answer, reference))
    shared = len(words & expected)
    return 2 * shared / (len(words) + len(expected)) if shared else 0.0


class MatchCalls(Reward):
    """Rewards each step by how well its tool calls match the reference calls, matched over the whole rollout.

    The reward of a step is the mean over its calls, plus the word F1 of its answer if it answers. A call is matched one
    to one (`best`: maximal total similarity; `greedy`: best pair first) and gets its similarity S, or `unmatched`; with
    `transport` it is matched softly by a transport plan T and gets Σ_j T_ij S_ij. `rollout.reward` is the sum over
    steps, `rollout.match` the matched similarity per reference call.
    """

    reference = "MatchTIR, https://github.com/quchangle1/MatchTIR"
    matching: str = "best"  # best, greedy or transport
    unmatched: float = 0.0  # reward of a call without a partner
    regularization: float = 0.1  # entropy regularisation of the transport, > 0

    provides = ("step.reward", "rollout.reward", "rollout.match")
    needs = ("step.calls", "step.answer", "rollout.reference_calls", "rollout.reference_answer")

    def __post_init__(self) -> None:
        one_of(self, "matching", ("best", "greedy", "transport"))
        within(self, "regularization", 0, open_low=True)

    def rewards(self, similarity: Tensor) -> Tensor:
        """[call] The rewards, from the similarities [call, reference] of a rollout."""
        if 0 in similarity.shape:
            return similarity.new_full((len(similarity),), self.unmatched)
        if self.matching == "transport":
            return (transport(similarity, self.regularization) * similarity).sum(1)
        partner = (assign_best if self.matching == "best" else assign_greedily)(similarity)
        return similarity.new_tensor(
            [float(similarity[i, j]) if j >= 0 else self.unmatched for i, j in enumerate(partner)]
        )

    def __call__(self, batch: Batch) -> Columns:
        lengths = batch.partition("step", "rollout").lengths().tolist()
        reference_calls, reference_answer = batch["rollout.reference_calls"], batch["rollout.reference_answer"]
        rewards, matched, start = [], [], 0
        for rollout, length in enumerate(lengths):
            steps = range(start, start + length)
            calls = [call for step in steps for call in batch["step.calls"][step]]
            in_order = iter(self.rewards(_similarities(calls, reference_calls[rollout])).tolist())
            of_calls = [[next(in_order) for _ in batch["step.calls"][step]] for step in steps]
            answers = (batch["step.answer"][step] for step in steps)
            of_answers = [token_f1(answer, reference_answer[rollout]) if answer else 0.0 for answer in answers]
            rewards += [(sum(x) / len(x) if x else 0.0) + f1 for x, f1 in zip(of_calls, of_answers, strict=True)]
            matched.append(sum(map(sum, of_calls)) / max(len(reference_calls[rollout]), 1))
            start += length
        step = torch.tensor(rewards, dtype=batch.dtype, device=batch.device)
        return {
            "step.reward": step,
            "rollout.reward": batch.reduce(step, "step", "rollout", "sum"),
            "rollout.match": torch.tensor(matched, dtype=batch.dtype, device=batch.device),
        }


def _similarities(calls: Sequence[Call], references: Sequence[Call]) -> Tensor:
    rows = [[call_similarity(call, reference) for reference in references] for call in calls]
    return torch.tensor(rows, dtype=torch.float64).reshape(len(calls), len(references))
