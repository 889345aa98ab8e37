"""Rewards of steps that nobody labelled."""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

import torch

from podium import methods
from podium.core.batch import Batch
from podium.parts.metric.process import BestOfN
from tests.conformance.case import Case
from tests.conformance.helpers import configured, credited, differentiate, in_blocks, padded, reported
from tests.conformance.registry import adapter


@adapter("prl", aside=("suffix_log_ratio",))
def prl(case: Case) -> dict[str, Any]:
    raw = case.hyper.get("mode", "orm") == "prm"
    steps = {"step": 1} if raw else case.given(step="step_len")
    method = methods.prl(outcome="raw" if raw else "group", **case.given(eta="eta"), **steps)
    method = configured(case, method, {"epsilon": "advantage.epsilon"})
    if not case.hyper.get("normalize_by_std", True):
        method = method.set("advantage.scale", "none")
    columns = {"token.old.logp": "old_logp", "token.ref.logp": "ref_logp", "rollout.reward": "rewards"}
    batch = credited(method, padded(case, columns, group=case["group"]))
    return {
        "outcome_advantage": method.advantage.outcomes(batch),
        "step_reward": batch.to_padded(method.advantage.values(batch)),
        "advantages": batch.to_padded(batch["token.advantage"]),
    }


def in_steps(case: Case, batch: Batch) -> Batch:
    """The batch with the case's steps, given by the places of their last tokens."""
    tokens = zip(batch.link("token", "rollout").tolist(), batch.position("token").tolist(), strict=True)
    steps = [(row, bisect_left(case["step_ends"][row], place)) for row, place in tokens]
    numbers = {step: number for number, step in enumerate(sorted(set(steps)))}
    return batch.with_level("segment", torch.tensor([numbers[step] for step in steps])).with_step("segment")


@adapter("implicit-prm")
def implicit_prm(case: Case) -> dict[str, Any]:
    names = ("gamma_process", "gamma_outcome")
    settings = case.given(beta="beta", coefficient="rm_coef", **{name: name for name in names})
    method = methods.implicit_prm(bounded=False, **settings)
    columns = {"token.reward_model.logp": "prm_logp", "token.ref.logp": "ref_logp", "rollout.reward": "correct"}
    group = in_blocks(len(case["correct"]), case["group_size"])
    batch = credited(method, padded(case, columns, group=group))
    model = next(t for t in method.objective if t.trains == "reward_model")
    scored = batch.with_columns({"token.now.logp": batch["token.reward_model.logp"]})
    scores, stepped = BestOfN(coefficient=case.hyper["eval_coef"]), in_steps(case, batch)
    lengths = stepped.partition("step", "rollout").lengths().tolist()

    def by_rollout(x: torch.Tensor) -> list[list[float]]:
        return [part.tolist() for part in x.split(lengths)]

    (reward,), (accuracy, *_) = method.reward, method.metric
    implicit = reward.replace(coefficient=case.hyper["beta"])
    return {
        "implicit_reward": batch.to_padded(implicit(batch)["token.reward.process"]),
        "step_reward": by_rollout(scores.steps(stepped, case.hyper["beta"])),
        "step_cumulative": by_rollout(scores.cumulative(stepped)),
        "best_of_n_score": scores(stepped)["rollout.best_of_n"],
        "ce_loss": differentiate([model], scored).step.loss,
        "pairwise_accuracy": reported(batch.with_columns(accuracy(batch)), "group.pairwise_accuracy"),
        "returns": batch.to_padded(batch["token.return"]),
        "advantages": batch.to_padded(batch["token.advantage"]),
    }
