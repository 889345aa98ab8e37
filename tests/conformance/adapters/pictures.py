"""Methods on pictures: evidence that was picked, readers and listeners, decisions."""

from __future__ import annotations

from typing import Any

import torch

from podium import methods
from podium.core.batch import Batch
from podium.core.shares import ShareOfRun, scaled
from podium.core.value import Clock
from podium.method import Method
from podium.parts.select import SometimesSolved
from podium.strategies.judged.analysed import solved_share
from tests.conformance.case import Case
from tests.conformance.helpers import credited, differentiate, padded
from tests.conformance.registry import adapter

STEPS = 1_000_000  # iterations of a run in which every progress of a case is a whole number of them


def in_group(columns: dict[str, Any], count: int) -> Batch:
    """A group of so many rollouts."""
    return Batch.from_rewards(torch.zeros(count, dtype=torch.float64), [0] * count, columns)


@adapter("earl-video")
def earl_video(case: Case) -> dict[str, Any]:
    hyper = case.hyper
    weights = {
        name: (hyper[f"{x}_early"], hyper[f"{x}_late"]) for name, x in (("action", "alpha"), ("relevance", "beta"))
    }
    given = case.given(threshold="iou_threshold", epsilon="eps")
    method = methods.earl_video(imitate=0, switch=ShareOfRun(hyper["switch"]), **weights, **given)
    method = scaled(method, {"iterations": STEPS}).at(Clock(max(case["progress"] * STEPS - 1, 0)))
    columns = {
        "rollout.picked": [tuple(ids) for ids in case["selected"]],
        "rollout.evidence": [tuple(ids) for ids in case["gold"]],
        "rollout.correct": torch.tensor(case["correct"]),
    }
    batch = credited(method, in_group(columns, len(case["correct"])))
    return {
        "iou": batch["rollout.overlap"],
        "action_reward": batch["rollout.looked"],
        "correct_reward": batch["rollout.reward.outcome"],
        "reward": batch["rollout.reward"],
        "advantage": batch["rollout.advantage"],
    }


def phase(method: Method, number: int) -> Method:
    """One of the methods of a recipe that trains in phases."""
    return list(scaled(method, {"iterations": STEPS}).leaves())[number]


@adapter("ap-grpo")
def ap_grpo(case: Case) -> dict[str, Any]:
    method = phase(methods.ap_grpo(**case.given(strength="k", kl="beta", epsilon="eps")), 0)
    columns = {"token.now.logp": "logp", "token.old.logp": "old_logp", "token.ref.logp": "ref_logp"}
    batch = padded(case, columns | {"rollout.reward": "reward"}, group=[0] * len(case["reward"]))
    assert method.advantage is not None
    for part in (method.advantage, *method.shape):
        batch = batch.with_columns(part(batch))
    outcome = differentiate(method.objective, batch)
    return {
        "advantage": batch["rollout.advantage"],
        "mu1": batch["rollout.policy_weight"],
        "mu2": batch["rollout.kl_weight"],
        "loss": outcome.step.loss,
        "grad_logp": batch.to_padded(outcome.grad_logp),
    }


def named(row: list[float]) -> tuple[tuple[str, float], ...]:
    """Numbers of options, by the options' places as names."""
    return tuple((str(place), value) for place, value in enumerate(row))


@adapter("listener-reward")
def listener_reward(case: Case) -> dict[str, Any]:
    names = {"format": "w_format", "accuracy": "w_accuracy", "weight": "w_listener", "epsilon": "eps"}
    columns = {
        "rollout.options": [named(row) for row in case.logs("listener_probs")],
        "rollout.explained": torch.tensor(case["format_ok"]).bool(),
        "rollout.answer": [str(a) for a in case["answer"]],
        "rollout.reference_answer": [str(a) for a in case["gold"]],
        "rollout.correct": [a == gold for a, gold in zip(case["answer"], case["gold"], strict=True)],
    }
    batch = credited(methods.listener_reward(**case.given(**names)), in_group(columns, len(case["answer"])))
    return {
        "accuracy": batch["rollout.correct"].to(torch.float64),
        "listener_reward": batch["rollout.heard"],
        "reward": batch["rollout.reward"],
        "advantage": batch["rollout.advantage"],
        "listener_disagrees": batch["rollout.disagrees"],
    }


@adapter("expo-hm")
def expo_hm(case: Case) -> dict[str, Any]:
    names = {"format": "format_score", "weight": "cde_weight", "low": "low_entropy_cutoff"}
    names |= {"high": "high_entropy_cutoff_correct", "high_wrong": "high_entropy_cutoff_wrong"}
    method = phase(methods.expo_hm(**case.given(penalty="confidence_penalty_ratio", **names)), -1)
    decisions = case["decision_logits"]
    columns = {
        "rollout.options": [named(row or [0.0, 0.0]) for row in decisions],
        "rollout.decided": [row is not None for row in decisions],
        "rollout.explained": torch.tensor(case["format_ok"]).bool(),
    }
    rewards = torch.tensor(case["correct"]).to(torch.float64)
    batch = credited(method, Batch.from_rewards(rewards, [0] * len(rewards), columns))
    return {
        "entropy_nats": batch["rollout.decision.nats"],
        "normalized_entropy": batch["rollout.decision.entropy"],
        "cde_reward": batch["rollout.reward.decision"],
        "reward": batch["rollout.reward"],
    }


@adapter("doge")
def doge(case: Case) -> dict[str, Any]:
    method = methods.doge(**case.given(format="format_weight", low="pool_low", high="pool_high", epsilon="eps"))
    first, second = phase(method, 0), phase(method, 1)
    columns = {
        "rollout.solver.rate": torch.tensor([solved_share(row) for row in case["solver_correct"]], dtype=torch.float64),
        "rollout.formed": torch.tensor(case["format_ok"]).bool(),
    }
    batch = in_group(columns, len(case["format_ok"]))
    assert first.advantage is not None
    assert isinstance(second.select, SometimesSolved)
    for part in (*first.reward, first.advantage):
        batch = batch.with_columns(part(batch))
    return {
        "reward": batch["rollout.reward"],
        "advantage": batch["rollout.advantage"],
        "pool_keep": second.select.pool(case.tensor("pool_pass_rate")),
    }
