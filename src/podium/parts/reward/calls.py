"""Tool calls: how well those of a rollout match the calls of a reference."""

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

Call = Mapping[str, Any]  # name, and arguments by name


def call_similarity(call: Call, reference: Call) -> float:
    """[1 + J(keys) + right values] / (2 + number of reference arguments); 0 if the names differ, whatever their case.

    J is the overlap of the arguments' names over their union, 1 where both calls have none.
    """
    if str(call["name"]).lower() != str(reference["name"]).lower():
        return 0.0
    given, wanted = dict(call.get("arguments") or {}), dict(reference.get("arguments") or {})
    shared = len(given.keys() & wanted.keys())
    names = 1.0 if given.keys() == wanted.keys() else shared / (len(given) + len(wanted) - shared)
    values = sum(bool(k in given and given[k] == v) for k, v in wanted.items())
    return (1 + names + values) / (2 + len(wanted))


def assign_greedily(similarity: Tensor) -> list[int]:
    """The reference of each call, −1 for none: the most similar pair first, then the next of those still free."""
    calls, references = similarity.shape
    chosen = [-1] * calls
    order = similarity.reshape(-1).argsort(descending=True, stable=True).tolist()
    for call, reference in (divmod(place, references) for place in order):
        if chosen[call] < 0 and reference not in chosen and similarity[call, reference] > 0:
            chosen[call] = reference
    return chosen


def assign_best(similarity: Tensor) -> list[int]:
    """The reference of each call, −1 for none, so that the similarities add up to the most."""
    from scipy.optimize import linear_sum_assignment  # type: ignore[import-untyped]

    chosen = [-1] * len(similarity)
    for call, reference in zip(*linear_sum_assignment(similarity.numpy(), maximize=True), strict=True):
        if similarity[call, reference] > 0:
            chosen[call] = int(reference)
    return chosen


def transport(similarity: Tensor, regularization: float = 0.1, rounds: int = 10_000) -> Tensor:
    """[call, reference] the entropic transport plan between uniform weights that keeps the most similarity."""
    calls, references = similarity.shape
    score = similarity.double() / regularization
    row, column = score.new_full((calls, 1), -math.log(calls)), score.new_full((1, references), -math.log(references))
    v = torch.zeros_like(column)
    for _ in range(rounds):
        u = row - (score + v).logsumexp(1, keepdim=True)
        moved = column - (score + u).logsumexp(0, keepdim=True)
        done = bool((moved - v).abs().max() < 1e-13)
        v = moved
        if done:
            break
    return (score + u + v).exp()


def token_f1(answer: str, reference: str) -> float:
    """F1 of the sets of words, without case and punctuation."""
    said, wanted = (set(re.sub(r"[^\w\s]|_", " ", text.lower()).split()) for text in (answer, reference))
    shared = len(said & wanted)
    return 2 * shared / (len(said) + len(wanted)) if shared else 0.0


class MatchCalls(Reward):
    """The reward of a step: the mean of how well its calls match the reference, over the whole rollout at once.

    A call is matched one to one (`greedy`: the best pair first; `best`: the largest total) and gets its similarity, or
    `unmatched`; or softly (`transport`), and gets Σ_j T_ij S_ij. The step that answers adds the F1 of its words.
    """

    reference = "MatchTIR, https://github.com/quchangle1/MatchTIR"
    matching: str = "best"  # best, greedy or transport
    unmatched: float = 0.0  # reward of a call that has no partner
    regularization: float = 0.1  # of the transport

    provides = ("step.reward", "rollout.reward", "rollout.match")
    needs = ("step.calls", "step.answer", "rollout.reference_calls", "rollout.reference_answer")

    def __post_init__(self) -> None:
        one_of(self, "matching", ("best", "greedy", "transport"))
        within(self, "regularization", 0, open_low=True)

    def rewards(self, similarity: Tensor) -> Tensor:
        """[call] from the similarities of the calls of a rollout to those of its reference."""
        if 0 in similarity.shape:
            return similarity.new_full((len(similarity),), self.unmatched)
        if self.matching == "transport":
            return (transport(similarity, self.regularization) * similarity).sum(1)
        partner = (assign_best if self.matching == "best" else assign_greedily)(similarity)
        found = [float(similarity[i, j]) if j >= 0 else self.unmatched for i, j in enumerate(partner)]
        return similarity.new_tensor(found)

    def __call__(self, batch: Batch) -> Columns:
        lengths = batch.partition("step", "rollout").lengths().tolist()
        wanted, right = batch["rollout.reference_calls"], batch["rollout.reference_answer"]
        rewards, matched, start = [], [], 0
        for rollout, length in enumerate(lengths):
            steps = range(start, start + length)
            calls = [call for step in steps for call in batch["step.calls"][step]]
            paid = iter(self.rewards(_similarities(calls, wanted[rollout])).tolist())
            own = [[next(paid) for _ in batch["step.calls"][step]] for step in steps]
            answers = (batch["step.answer"][step] for step in steps)
            said = [token_f1(answer, right[rollout]) if answer else 0.0 for answer in answers]
            rewards += [(sum(x) / len(x) if x else 0.0) + y for x, y in zip(own, said, strict=True)]
            matched.append(sum(map(sum, own)) / max(len(wanted[rollout]), 1))
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
