"""Rollouts beside demonstrations."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from podium import methods
from podium.core.batch import Batch
from podium.core.columns import Purpose
from podium.method import Method
from tests.conformance.case import Case
from tests.conformance.helpers import LOSS_SETTINGS, aggregate, configured, credited, differentiate, marked, only
from tests.conformance.registry import adapter


def _beside(case: Case, mask: str, columns: dict[str, tuple[str, str | None]], purpose: Purpose) -> Batch:
    """The rollouts of a case, and after them one demonstration for each group; a column without one there is 0."""
    own, given = case.tensor("mask"), case.tensor(mask)
    rollouts, demonstrations = len(own), len(given)
    width = max(own.shape[1], given.shape[1])

    def joined(name: str, other: str | None) -> Tensor:
        x = case.tensor(name)
        return stacked(x, torch.zeros(demonstrations, *x.shape[1:]) if other is None else case.tensor(other))

    def stacked(*parts: Tensor) -> Tensor:
        return torch.cat([pad(x, (0, width - len(x[0]))) if x.dim() == 2 else x for x in parts])

    found: dict[str, Any] = {c: joined(*names) for c, names in columns.items() if names[0] in case}
    found["rollout.demonstration"] = marked(rollouts + demonstrations, rollouts)
    found["rollout.sampled"] = torch.tensor([True] * rollouts + [False] * demonstrations)
    found["rollout.purpose"] = torch.tensor([int(Purpose.train)] * rollouts + [int(purpose)] * demonstrations)
    group = torch.tensor([*case["group"], *range(demonstrations)])
    return Batch.from_padded(stacked(own, given), group, found)


def _prepared(method: Method, batch: Batch) -> Batch:
    for part in method.keep:
        batch = batch.with_columns(part(batch))
    return credited(method, batch)


@adapter("hpt")
def hpt(case: Case) -> dict[str, Any]:
    settings = case.given(gate="gate", sft="sft_coef", clip="clip", max_length="length_divisor")
    method = methods.hpt(entropy=0.0, **settings)
    columns = {
        "token.now.logp": ("logp", "demo_logp"),
        "token.old.logp": ("old_logp", "demo_logp"),
        "rollout.reward": ("rewards", None),
    }
    batch = _prepared(method, _beside(case, "demo_mask", columns, Purpose.demo))
    rollouts = len(case["rewards"])
    credit = only(batch["token.advantage"], batch.trained("token"))
    step = differentiate(method.objective, batch).step
    imitated = batch["group.imitated"].tolist()
    sft = float(method.objective[1].replace(coefficient=1.0)(batch))
    return {
        "route": ["sft" if chosen else "rl" for chosen in imitated],
        "advantages": batch.to_padded(credit)[:rollouts, : len(case["mask"][0])],
        "pg_loss": step.terms["PolicyGradient"],
        "sft_loss": sft if any(imitated) else None,
        "total_loss": step.loss,
    }


@adapter("calibrl")
def calibrl(case: Case) -> dict[str, Any]:
    method = configured(case, methods.calibrl(**case.given(guide="guided_coef", leak="leak")), LOSS_SETTINGS)
    if case.hyper.get("normalize_by_std", False):
        method = method.set("advantage.scale", "std")
    pg, guide = (term.replace(aggregate=aggregate(case)) for term in method.objective)
    expert = torch.tensor(case["is_expert"], dtype=torch.bool)
    columns = {
        "token.now.logp": case.tensor("logp"),
        "token.old.logp": case.tensor("old_logp"),
        "rollout.reward": case.tensor("rewards"),
        "rollout.purpose": torch.tensor([int(Purpose.baseline if e else Purpose.train) for e in case["is_expert"]]),
    }

    def prepared(mask: Tensor) -> Batch:
        return credited(method, Batch.from_padded(mask, case["group"], columns))

    # The yardstick past the demonstration's end is what stands there, so none of its positions is left out.
    mask = case.tensor("mask")
    read = mask.clone()
    read[expert] = 1.0
    batch, whole = prepared(read), prepared(torch.ones_like(mask))
    return {
        "advantages": only(batch.to_padded(batch["token.advantage"]), mask),
        "expert_logp_aligned": whole.to_padded(whole["token.expert.logp"]),
        "pg_loss": float(pg(batch)),
        "guided_loss": float(guide.replace(coefficient=1.0)(batch)),
        "total_loss": differentiate([pg, guide], batch).step.loss,
    }


@adapter("grao", aside=("exploration_likelihood", "imitation_likelihood"))
def grao(case: Case) -> dict[str, Any]:
    settings = case.given(beta="beta", lam="lam", epsilon="epsilon", reference_in_statistics="reference_in_statistics")
    method = methods.grao(**settings)
    columns = {"token.now.logp": ("logp", "reference_logp"), "rollout.reward": ("rewards", "reference_reward")}
    purpose = Purpose[method.rollout.demonstrate_as]
    batch = _prepared(method, _beside(case, "reference_mask", columns, purpose))
    raised = [term.replace(coefficient=-term.coefficient) for term in method.objective]  # the case's is to be raised
    alone = [batch.take("group", torch.tensor([g])) for g in range(batch.size("group"))]
    return {
        "advantages": batch["rollout.advantage"][batch["rollout.sampled"]],
        "reference_advantage": batch["rollout.advantage"][batch["rollout.demonstration"]],
        "terms": [[differentiate([term], group).step.loss for term in raised] for group in alone],
        "objective": [differentiate(raised, group).step.loss for group in alone],
        "loss": differentiate(method.objective, batch).step.loss,
    }
