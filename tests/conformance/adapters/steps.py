"""Many turns: comparisons of steps, rewards of tool calls and of tags."""

from __future__ import annotations

from typing import Any

import torch

from podium import methods
from podium.core.batch import Batch
from podium.core.build import Rollout, Turn
from podium.method import Method
from podium.parts.reward import MetaReasoning
from podium.parts.reward.calls import assign_greedily
from podium.parts.shape import WholeShares
from tests.conformance.case import Case
from tests.conformance.helpers import by_rollout, credited, episodes, in_row_order
from tests.conformance.registry import adapter

SCALES = {"mean_std_norm": "std", "mean_norm": "none"}
OUTCOME = {"rollout.reward": "outcome_reward"}


def _softened(method: Method, case: Case) -> Method:
    """The method with the case's epsilon in every comparison."""
    if "epsilon" not in case.hyper:
        return method
    parts = tuple(c.replace(epsilon=case.hyper["epsilon"]) for c in method.advantage.comparisons)
    return method.set("advantage.comparisons", parts)


def _rows(case: Case, columns: dict[str, str]) -> Batch:
    """Rows that are turns, in order; each is a rollout of its own where the case does not say, or where rows of one
    have different outcomes (one that is not valid pays for it)."""
    count = len(case["prompt_id"])
    given = dict(case.inputs)
    given.setdefault("rollout_id", list(range(count)))
    outcomes = set(zip(given["prompt_id"], given["rollout_id"], given["outcome_reward"], strict=True))
    if len(outcomes) > len({(prompt, rollout) for prompt, rollout, _ in outcomes}):
        given["rollout_id"] = list(range(count))
    given.setdefault("turn_index", list(range(count)))
    return episodes(Case.of(case.slug, given, case.hyper), columns)


def _walks(prompts: list[Any], rewards: list[list[float]], outcomes: list[float]) -> Batch:
    """Rollouts with a list of rewards of their turns each, and an outcome."""
    turns = [[Turn((0,), columns={"reward": float(r)}) for r in own] for own in rewards]
    rows = zip(prompts, turns, outcomes, strict=True)
    rollouts = [Rollout(prompt, own, columns={"reward": float(r)}) for prompt, own, r in rows]
    return Batch.from_rollouts(rollouts, dtype=torch.float64)


@adapter("mapo")
def mapo(case: Case) -> dict[str, Any]:
    settings = case.given(gamma="gamma", alpha="turn_weight", beta="batch_weight", immediate="immediate_scope")
    method = _softened(methods.mapo(**settings), case)
    batch = credited(method, episodes(case, {"turn.reward": "turn_reward"}))
    turn, now = method.advantage.comparisons
    return {
        "turn_return": in_row_order(batch, turn.values(batch)),
        "turn_level_advantage": in_row_order(batch, turn.compared(batch)),
        "batch_level_advantage": in_row_order(batch, now.compared(batch)),
        "advantage": in_row_order(batch, batch["step.advantage"]),
    }


@adapter("matchtir", aside=("optimal_total",))
def matchtir(case: Case) -> dict[str, Any]:
    if "similarity" in case:
        return _matched(case)
    if "predicted" in case:
        reference = case["ground_truth"]
        wanted = {"name": reference["name"], "arguments": reference["parameters"]}
        turn = Turn((), columns={"calls": [case["predicted"]], "answer": ""})
        rollout = Rollout(0, [turn], columns={"reward": 0.0, "reference_calls": [wanted], "reference_answer": ""})
        (part,) = methods.matchtir().reward
        return {"similarity": part(Batch.from_rollouts([rollout], dtype=torch.float64))["step.reward"][0]}
    scale = "std" if case.hyper.get("divide_by_std_trajectory", True) else "none"
    settings = case.given(gamma="gamma")
    method = _softened(methods.matchtir(matching=None, trajectory_scale=scale, **settings), case)
    batch = credited(method, _walks(case["prompt_id"], case["turn_rewards"], case.totals("turn_rewards")))
    return {"turn_advantage": by_rollout(batch, batch["step.advantage"])}


def _matched(case: Case) -> dict[str, Any]:
    similarity = case.tensor("similarity")
    settings = case.given(unmatched="unmatched_reward", regularization="ot_reg")

    def rewards(matching: str) -> torch.Tensor:
        (part,) = methods.matchtir(matching=matching).reward
        return part.replace(**settings).rewards(similarity)

    return {
        "greedy_assignment": assign_greedily(similarity),
        "greedy_reward": rewards("greedy"),
        "optimal_reward": rewards("best"),
        "ot_reward": rewards("transport"),
    }


@adapter("srgpo")
def srgpo(case: Case) -> dict[str, Any]:
    given: dict[str, Any] = {"progress": False, "invalid": 0.0, "overlong": 0.0}  # the rewards of steps are given
    settings = case.given(omega="step_weight")
    method = _softened(methods.srgpo(scale=SCALES[case.hyper["mode"]], **given, **settings), case)
    batch = _rows(case, {"turn.reward": "step_reward", "turn.block": "step_group", **OUTCOME})
    outcome, step = method.advantage.comparisons
    return {
        "episode_advantage": in_row_order(batch, outcome.compared(batch)),
        "step_advantage": in_row_order(batch, step.compared(batch)),
        "advantage": in_row_order(batch, method.advantage(batch)["step.advantage"]),
    }


@adapter("rlvmr")
def rlvmr(case: Case) -> dict[str, Any]:
    if "steps" in case:
        return _tagged(case)
    method = _softened(
        methods.rlvmr(imitate=0, scale=SCALES[case.hyper["mode"]], **case.given(omega="step_weight")), case
    )
    columns = {"turn.tag": "turn_tag", "turn.reward.meta": "meta_reward", "turn.reward.outcome": "outcome_reward"}
    batch = _rows(case, columns)
    outcome, meta = method.advantage.comparisons
    return {
        "episode_advantage": in_row_order(batch, outcome.compared(batch)),
        "meta_advantage": in_row_order(batch, meta.compared(batch)),
        "advantage": in_row_order(batch, method.advantage(batch)["step.advantage"]),
    }


def _tagged(case: Case) -> dict[str, Any]:
    pays = case.given(planning="planning_reward", explore="exploration_reward", reflection="reflection_reward")
    (part,) = (reward for reward in methods.rlvmr(imitate=0).reward if isinstance(reward, MetaReasoning))
    part = part.replace(valid="step.valid", available="step.available", **pays)
    rollout = Rollout(0, [Turn((), columns=step) for step in case["steps"]], columns={"reward": float(case["success"])})
    found = part(Batch.from_rollouts([rollout], dtype=torch.float64))
    return {"turn_tag": list(found["step.tag"]), "meta_reward": found["step.reward.meta"]}


@adapter("agentflow")
def agentflow(case: Case) -> dict[str, Any]:
    rows = {"turn_rows": "step", "rollouts": "rollout"}[case.hyper["statistics_over"]]
    method = _softened(methods.agentflow(rows=rows), case)
    batch = _rows(case, OUTCOME)
    return {"turn_advantage": in_row_order(batch, method.advantage(batch)["step.advantage"])}


@adapter("iterresearch-eapo")
def iterresearch_eapo(case: Case) -> dict[str, Any]:
    settings = case.given(gamma="gamma", workers="data_parallel_size")
    method = _softened(methods.iterresearch_eapo(imitate=0, **settings), case)
    rounds, outcomes = case["rounds"], case["outcome_reward"]
    walks = [[0.0] * (length - 1) + [float(r)] for length, r in zip(rounds, outcomes, strict=True)]
    batch = _walks(case["prompt_id"], walks, outcomes)
    (comparison,) = method.advantage.comparisons
    (share,) = method.shape
    assert isinstance(share, WholeShares)
    return {
        "round_reward": by_rollout(batch, comparison.values(batch)),
        "round_advantage": by_rollout(batch, method.advantage(batch)["step.advantage"]),
        "total_samples": batch.size("turn"),
        "kept_samples": len(share(batch)["step.keep.share"].nonzero()),
    }
