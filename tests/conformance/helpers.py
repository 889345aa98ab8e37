"""What adapters share: from the arrays of a case to a batch, from a batch to the arrays of a case."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from podium.core import Signal
from podium.core.batch import Batch
from podium.core.build import Rollout, Turn
from podium.core.gradient import UpdateResult, backward
from podium.core.part import Shape
from podium.core.term import Aggregate, Term
from podium.method import Method
from podium.parts.metric import ReportMean
from podium.policy import Policy
from tests.conformance.case import Case

__all__ = [
    "Weights",
    "aggregate",
    "by_rollout",
    "configured",
    "credited",
    "credited_shapes",
    "differentiate",
    "episodes",
    "in_blocks",
    "in_row_order",
    "marked",
    "marked_until",
    "mask",
    "only",
    "outcome_advantage",
    "padded",
    "policy_loss",
    "reported",
    "watched",
]

# -- a model -----------------------------------------------------------------------------------------------------------


class Weights:
    """Numbers in place of a model's parameters."""

    average = Policy.average

    def __init__(self, weights: Tensor) -> None:
        self.weights = weights

    def named_parameters(self) -> list[tuple[str, Tensor]]:
        return [("weights", self.weights)]

    def bump(self) -> None:
        pass

    def widen(self) -> None:
        pass


# -- padded arrays -----------------------------------------------------------------------------------------------------

# The inputs of loss cases and the columns that they are.
LOSS_COLUMNS = {
    "token.now.logp": "logp",
    "token.old.logp": "old_logp",
    "token.ref.logp": "ref_logp",
    "token.advantage": "advantage_per_token",
    "token.weight.importance": "is_weights",
}


def mask(case: Case) -> Tensor:
    """[B, T] the case's mask, or one made from its lengths."""
    if "mask" in case:
        return case.tensor("mask")
    return torch.tensor(marked_until(case["lengths"], max(case["lengths"])), dtype=torch.float64)


def marked_until(lengths: Sequence[int], width: int) -> list[list[bool]]:
    """[B, T] True in the first places of each row, as many as its length."""
    return [[place < length for place in range(width)] for length in lengths]


def marked(count: int, first: int) -> Tensor:
    """[count] True from the place `first` on."""
    return torch.tensor([place >= first for place in range(count)], dtype=torch.bool)


def in_blocks(count: int, size: int) -> list[int]:
    """Groups of so many rows that follow each other."""
    return [row // size for row in range(count)]


def only(x: Tensor, where: Tensor) -> Tensor:
    """x in these places and 0 in the others."""
    shown = torch.zeros_like(x)
    shown[where.bool()] = x[where.bool()]
    return shown


def padded(case: Case, columns: Mapping[str, str], group: Sequence[Any] | None = None, given: bool = False) -> Batch:
    """A batch from [B, T] and [B] inputs; `columns` says which input a column is, those that are absent are left out.

    Without `group` every row is a group of its own. `given=True` keeps masked positions as tokens of the world.
    """
    found = {column: case.tensor(name) for column, name in columns.items() if name in case}
    rows = mask(case)
    return Batch.from_padded(rows, list(range(len(rows))) if group is None else group, found, given=given)


def credited(method: Method, batch: Batch) -> Batch:
    """The batch after the method's reward, advantage and shape stages."""
    assert method.advantage is not None
    for part in (*method.annotate, *method.reward, method.advantage, *method.shape):
        batch = batch.with_columns(part(batch))
    return batch


def credited_shapes(method: Method, batch: Batch) -> Batch:
    """The batch after the method's shape stage, of a method without advantages."""
    for part in method.shape:
        batch = batch.with_columns(part(batch))
    return batch


def outcome_advantage(case: Case, method: Method) -> dict[str, Any]:
    """The advantage of rollouts with one reward each, by rollout and spread over its tokens (0 outside the mask)."""
    batch = credited(method, padded(case, {"rollout.reward": "rewards"}, group=case["group_ids"]))
    return {
        "advantage_per_rollout": batch["rollout.advantage"],
        "advantage_per_token": batch.to_padded(batch["token.advantage"]),
    }


# -- losses ------------------------------------------------------------------------------------------------------------


def aggregate(case: Case) -> Aggregate:
    """The case's aggregation, by the names that verl gave the modes."""
    paths = {
        "token-mean": "token mean",
        "seq-mean-token-sum": "token sum, rollout mean",
        "seq-mean-token-mean": "token mean, rollout mean",
        "mean over tokens of each sequence, then mean over sequences": "token mean, rollout mean",
        "sequence mean of token means": "token mean, rollout mean",
    }
    name = case.hyper["aggregation"]
    if name == "seq-mean-token-sum-norm":
        return Aggregate(f"token sum / {case.hyper.get('loss_norm_length', mask(case).shape[1])}")
    return Aggregate(paths[name])


# Settings of loss cases and the settings of a method that they are.
LOSS_SETTINGS = {
    "clip_low": "objective.PolicyGradient.clip.low",
    "clip_high": "objective.PolicyGradient.clip.high",
    "dual_clip": "objective.PolicyGradient.clip.dual",
}


def configured(case: Case, method: Method, paths: Mapping[str, str]) -> Method:
    """The method with the case's settings; `paths` says which setting of the method each is."""
    for name, path in paths.items():
        if name in case.hyper:
            method = method.set(path, case.hyper[name])
    return method


@dataclass(frozen=True)
class Outcome:
    """A loss, its parts, and its gradient."""

    step: UpdateResult
    grad_logp: Tensor  # [token]


def differentiate(terms: Sequence[Term], batch: Batch, live: Sequence[Shape] = ()) -> Outcome:
    """The value of Σ terms and its gradient in the log-probabilities that `batch` holds as those of now."""
    now = {name: batch[name].detach().clone().requires_grad_() for name in batch.columns if ".now." in name}
    numbers = {f"{level}.number": torch.arange(batch.size(level)) for level in ("token", "rollout")}
    update = batch.without(now).with_columns(numbers)

    def forward(micro: Batch, signals: Sequence[Signal]) -> dict[Signal, Tensor]:
        return {s: now[s.column][micro[f"{s.level}.number"]] for s in signals}

    step = backward(terms, update, forward, live=live)
    slope = now["token.now.logp"].grad if "token.now.logp" in now else None
    return Outcome(step, torch.zeros(batch.size("token"), dtype=batch.dtype) if slope is None else slope)


def policy_loss(case: Case, method: Method) -> dict[str, Any]:
    """A loss case: the method's policy terms with the case's clip and aggregation; loss, gradient, diagnostics."""
    method = configured(case, method, LOSS_SETTINGS)
    if "aggregation" in case.hyper:
        method = method.set("objective.PolicyGradient.aggregate", aggregate(case))
    batch = padded(case, LOSS_COLUMNS)
    terms = [t for t in method.objective if t.trains == "policy"]
    outcome = differentiate(terms, batch)
    return {"loss": outcome.step.loss, "grad_logp": batch.to_padded(outcome.grad_logp)} | watched(terms, batch)


def watched(terms: Sequence[Term], batch: Batch) -> dict[str, float]:
    """The means of what terms watch, over all their members: an update leaves out those without an advantage."""
    found = {}
    for term in terms:
        batch = batch.with_columns({"token.inside": term.members(batch)})
        for name, x in term.diagnostics(batch).items():
            found[name] = reported(batch.with_columns({"token.watched": x}), "token.watched", "token.inside")
    return found


def reported(batch: Batch, column: str, where: str | None = None) -> float:
    """The mean of a column, as runs report it."""
    (mean,) = ReportMean(column, where)(batch).values()
    return float(mean[0])


# -- episodes of several turns -----------------------------------------------------------------------------------------


def episodes(case: Case, columns: Mapping[str, str]) -> Batch:
    """A batch from rows that are turns (`prompt_id`, `rollout_id`, `turn_index`, in any order).

    `columns` says which input each column `turn.NAME` or `rollout.NAME` is, the latter constant over a rollout's rows.
    """
    found: dict[tuple[Any, Any], list[int]] = {}
    for row, key in enumerate(zip(case["prompt_id"], case["rollout_id"], strict=True)):
        found.setdefault(key, []).append(row)

    def values(level: str, row: int) -> dict[str, Any]:
        wanted = {c.partition(".")[2]: case[name] for c, name in columns.items() if c.startswith(level)}
        return {c: float(x[row]) if isinstance(x[row], (int, float)) else x[row] for c, x in wanted.items()}

    rollouts = []
    for (prompt, _), rows in found.items():
        rows.sort(key=lambda row: case["turn_index"][row])
        turns = [Turn((), columns=values("turn", row) | {"row": row}) for row in rows]
        rollouts.append(Rollout(prompt, turns, columns=values("rollout", rows[0])))
    return Batch.from_rollouts(rollouts, dtype=torch.float64)


def in_row_order(batch: Batch, x: Tensor) -> Tensor:
    """A value per turn of `episodes` in the order of the case's rows."""
    return torch.empty_like(x).index_copy(0, batch["turn.row"], x)


def by_rollout(batch: Batch, x: Tensor) -> list[list[Any]]:
    """A value per turn as a list for each rollout."""
    return [part.tolist() for part in x.split(batch.partition("turn", "rollout").lengths().tolist())]
