"""A teacher's view of the policy's tokens."""

from __future__ import annotations

from typing import Any

import torch

from podium import methods
from podium.core.batch import Batch
from podium.policy.head.functionals import HeadRows, entropy, logp_of, top
from tests.conformance.case import Case
from tests.conformance.helpers import differentiate, only
from tests.conformance.registry import adapter


def _rows(case: Case, name: str, mask: torch.Tensor) -> HeadRows:
    """The rows of a head that says these logits, without a model."""
    logits = case.tensor(name)[mask.bool()]
    return HeadRows(logits, torch.zeros(len(logits), dtype=torch.long), lambda known: known)


@adapter("srpo")
def srpo(case: Case) -> dict[str, Any]:
    assert case.hyper["divergence"] == "js"
    settings = case.given(beta="beta", clip_low="clip_low", clip_high="clip_high", epsilon="epsilon")
    vocabulary = len(case["teacher_logits"][0][0])
    method = methods.srpo(std=True, k=vocabulary, **settings)
    mask, reward = case.tensor("mask"), case.tensor("rewards")
    columns = {
        "token.now.logp": case.tensor("logp"),
        "token.old.logp": case.tensor("old_logp"),
        "rollout.reward": reward,
        "rollout.correct": torch.tensor([r == 1 for r in case["rewards"]]),
        "rollout.sibling": torch.tensor(case["teacher_available"], dtype=torch.bool),
    }
    batch = Batch.from_padded(mask, case["group"], columns)
    teacher = _rows(case, "teacher_logits", mask)
    certainty, (pg, distil) = method.shape[0], method.objective
    top_signal, own = distil.needs
    best = top(teacher, vocabulary)
    student = logp_of(_rows(case, "student_logits", mask), best)
    signals = {top_signal: best, own: student, certainty.needs[1]: entropy(teacher)}
    batch = batch.with_columns(signals)
    for part in (*method.keep, method.advantage, certainty):
        batch = batch.with_columns(part(batch))

    def inside(x: torch.Tensor, where: str) -> torch.Tensor:
        return batch.to_padded(only(x, batch.spread(batch[where], "rollout", "token")))

    return {
        "route_sdpo": batch["rollout.distilled"],
        "advantages": batch["rollout.advantage"],
        "grpo_token_loss": inside(pg.loss(batch), "rollout.reinforced"),
        "teacher_entropy": inside(batch[certainty.needs[1]], "rollout.distilled"),
        "weight": inside(batch["token.weight.certainty"], "rollout.distilled"),
        "sdpo_token_loss": inside(distil.loss(batch), "rollout.distilled"),
        "loss": differentiate(method.objective, batch).step.loss,
    }
