"""What a method does to each token of a batch: its credit, part by part, and where each term pushes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from podium.analysis.recorded_batch import GROUP
from podium.core.activity import label
from podium.core.batch import Batch
from podium.core.gradient import now_signals
from podium.core.signal import Signal
from podium.core.term import Term

__all__ = [
    "CreditTrail",
    "Effects",
    "credit_of",
    "effective_size",
    "flat_groups",
    "summarise",
    "term_pushes",
    "term_slopes",
]

NOW, OLD = Signal("logp", of="now"), Signal("logp", of="old")


def credit_of(batch: Batch) -> Tensor:
    """[token] advantage times weight, 0 where nothing is trained: what the policy gradient multiplies by."""
    if "token.advantage" not in batch:
        return torch.zeros(batch.size("token"))
    weight = batch.weight("token")
    credit = batch["token.advantage"].double().cpu()
    credit = credit if weight is None else credit * weight.double().cpu()
    return credit.where(batch.trained("token").cpu(), 0)


@dataclass
class CreditTrail:
    """The credit of each token after each part, so that one sees which part changed it and by how much."""

    changes: dict[str, Tensor] = field(default_factory=dict)  # by part: [token] what it added
    rewards: dict[str, Tensor] = field(default_factory=dict)  # by part: [rollout] what it added to the reward

    def step(self, name: str, before: Batch, after: Batch) -> None:
        """See a batch before and after a part."""
        change = credit_of(after) - credit_of(before)
        if bool((change != 0).any()):
            self.changes[name] = self.changes.get(name, 0) + change
        if "rollout.reward" in before and "rollout.reward" in after:
            earned = (after["rollout.reward"] - before["rollout.reward"]).double().cpu()
            if bool((earned != 0).any()):
                self.rewards[name] = self.rewards.get(name, 0) + earned


@dataclass(frozen=True)
class Effects:
    """What a method would do with a batch, token by token, at given weights."""

    credit: Tensor  # [token]
    trail: CreditTrail
    pushes: Mapping[str, Tensor]  # by term: [token] −∂L/∂log p, times the number of trained tokens
    logp: Tensor  # [token] of the current weights
    ratio: Tensor  # [token] of the current weights to those that sampled
    trained: Tensor  # [token]
    holding: frozenset[str] = frozenset()  # terms that only hold the policy to a reference

    @property
    def push(self) -> Tensor:
        """[token] of all terms together: above 0, the token becomes likelier."""
        return sum(self.pushes.values(), torch.zeros_like(self.logp))

    @property
    def learnt(self) -> Tensor:
        """[token] of the terms that follow a reward or an example."""
        followed = (push for name, push in self.pushes.items() if name not in self.holding)
        return sum(followed, torch.zeros_like(self.logp))


def term_slopes(terms: Sequence[Term], batch: Batch) -> dict[str, dict[Signal, Tensor]]:
    """By term, the derivatives of its value by the signals of the current policy that the batch holds."""
    leaves = {s: batch[s].detach().clone().requires_grad_() for s in now_signals(terms) if s.grad}
    held = batch.with_columns(leaves)
    slopes: dict[str, dict[Signal, Tensor]] = {}
    for term in terms:
        value, name = term(held), _free(label(term), slopes)
        slopes[name] = {}
        if value.requires_grad:
            found = torch.autograd.grad(value, list(leaves.values()), allow_unused=True, retain_graph=True)
            slopes[name] = {s: slope for s, slope in zip(leaves, found, strict=True) if slope is not None}
    return slopes


def term_pushes(slopes: Mapping[str, Mapping[Signal, Tensor]], batch: Batch) -> dict[str, Tensor]:
    """By term, [token] −∂term/∂log p, times the number of trained tokens: a plain policy gradient with a token mean
    gives each token its advantage."""
    scale = float(batch.trained("token").sum())
    pushes: dict[str, Tensor] = {}
    for name, by_signal in slopes.items():
        found = [slope for signal, slope in by_signal.items() if signal.column == NOW.column]
        pushes[name] = (
            -scale * found[0].double().cpu() if found else torch.zeros(batch.size("token"), dtype=torch.float64)
        )
    return pushes


def _free(name: str, taken: Iterable[str]) -> str:
    """The name, with a number behind it if another term has it."""
    count = sum(other.partition(" ")[0] == name for other in taken)
    return f"{name} {count + 1}" if count else name


def effective_size(push: Tensor, batch: Batch) -> float:
    """How many rollouts carry the gradient: (Σ w)² / Σ w² with w the sum of |push| over a rollout's tokens. As many as
    there are rollouts if all pull equally, 1 if one does it all, 0 if none does."""
    weight = batch.partition("token", "rollout").agg.sum(push.abs().to(batch.device))
    square = float((weight**2).sum())
    return float(weight.sum()) ** 2 / square if square else 0.0


def flat_groups(batch: Batch) -> Tensor:
    """[group] whether all rewards of a group are equal."""
    groups = batch.by("rollout", "group").agg
    return (groups.max(batch["rollout.reward"]) == groups.min(batch["rollout.reward"])).cpu()


def summarise(effects: Effects, sampled: Batch, trained: Batch) -> dict[str, float]:
    """The figures of a method on a batch. `sampled` is what the world gave, `trained` what the method made of it; its
    keep parts may have dropped groups."""
    touched = (effects.learnt != 0) & effects.trained
    flat = flat_groups(sampled)
    tasks = trained.partition("token", "group").agg.any((effects.credit != 0).to(trained.device)).cpu()
    rescued = flat[trained[GROUP].long().cpu()] & tasks
    return {
        "rollouts": float(len(sampled)),
        "effective_size": effective_size(effects.learnt, trained),
        "touched": float(touched.sum()) / max(sampled.size("token"), 1),
        "flat": float(flat.sum()),
        "rescued": float(rescued.sum()),
    }
