"""Many turns: which episodes are played, from where, and for how long."""

from __future__ import annotations

from typing import Any

import torch

from podium import methods
from podium.core.batch import Batch
from podium.core.build import Rollout, Turn
from podium.strategies.budgets.turn_budget import granted
from tests.conformance.case import Case
from tests.conformance.helpers import by_rollout, configured, credited
from tests.conformance.registry import adapter


@adapter("arpo")
def arpo(case: Case) -> dict[str, Any]:
    if "entropy_now" in case:
        strategy = methods.arpo(imitate=0, **case.given(weight="entropy_weight", chance="branch_probability")).rollout
        pairs = list(zip(case["entropy_now"], case["entropy_initial"], strict=True))
        return {
            "branch": [strategy.forks(*pair, u) for pair, u in zip(pairs, case["uniform_draw"], strict=True)],
            "branch_chance": [strategy.probability(*pair) for pair in pairs],
        }
    if "format_ok" in case:
        (reward,) = methods.arpo(imitate=0, **case.given(bonus="bonus", malformed="format_penalty")).reward
        columns = {
            "rollout.complete": torch.tensor(case["format_ok"]).bool(),
            "rollout.answer_f1": case.tensor("answer_f1"),
            "rollout.all_tools": torch.tensor(case["used_both_tools"]).bool(),
        }
        batch = Batch.from_rewards(case.tensor("answer_f1"), [0] * len(case["answer_f1"]), columns)
        return {"reward": reward(batch)["rollout.reward"]}
    method = methods.get("arpo@plain", attribution=case.hyper["attribution"])
    method = configured(case, method, {"epsilon": "advantage.epsilon"})
    rollouts = []
    for reward, ids in zip(case["reward"], case["segment_ids"], strict=True):
        nodes = [tuple(ids[: k + 1]) for k in range(len(ids))]  # the same turn after the same turns
        rollouts.append(Rollout(0, [Turn((), columns={"node": x}) for x in nodes], columns={"reward": float(reward)}))
    batch = credited(method, Batch.from_rollouts(rollouts, dtype=torch.float64))
    return {
        "rollout_advantage": batch["rollout.advantage"],
        "segment_advantage": by_rollout(batch, batch["turn.advantage"]),
    }


@adapter("pivotrl", aside=("profile_mean", "profile_variance"))
def pivotrl(case: Case) -> dict[str, Any]:
    method = configured(
        case,
        methods.pivotrl(below=case.hyper["mean_threshold"], profile=0, baseline="mean"),
        {"epsilon": "advantage.epsilon"},
    )
    profile, trained = (_groups(case[name]) for name in ("profile_rewards", "train_rewards"))
    (keep,) = method.keep
    advantage = credited(method, trained)["rollout.advantage"]
    return {
        "is_pivot": keep(profile)["group.keep"],
        "train_advantage": [x.tolist() for x in advantage.split([len(group) for group in case["train_rewards"]])],
    }


def _groups(rewards: list[list[float]]) -> Batch:
    flat = torch.tensor([r for group in rewards for r in group], dtype=torch.float64)
    return Batch.from_rewards(flat, [g for g, group in enumerate(rewards) for _ in group], {})


@adapter("turn-control")
def turn_control(case: Case) -> dict[str, Any]:
    if "prompt_tokens" in case:
        cost = methods.turn_control().metric[0].replace(**case.given(input="input_price", output="output_price"))
        turns, context = [], (0,) * case["prompt_tokens"]
        for action, observation in zip(case["action_tokens"], case["observation_tokens"], strict=True):
            turns.append(Turn((0,) * action, context))
            context = (*context, *(0,) * (action + observation))
        batch = Batch.from_rollouts([Rollout(0, turns, columns={"correct": True})], dtype=torch.float64)
        return {"input_tokens_per_turn": cost.read(batch), "total_cost": cost(batch)["rollout.cost"][0]}
    (memory,) = methods.turn_control().memories
    known = memory.scalars(memory.after(memory.initial(), case["baseline_turns"]))

    def budget(start: float, cap: float) -> list[dict[str, Any]]:
        method = methods.turn_control(step=case.hyper["extension"])
        first, last = method.rollout.replace(start=start, cap=cap).limits()
        found = []
        for needed in case["turns_needed"]:
            limit, extensions = granted(needed, first, case.hyper["extension"], last)
            found.append({"turns": min(needed, limit), "finished": needed <= limit, "extensions": extensions})
        return found

    start, cap = (
        memory.percentile(memory.after(memory.initial(), case["baseline_turns"]), case.hyper[name])
        for name in ("initial_percentile", "cap_percentile")
    )
    fixed = budget(known["turns.p75"], known["turns.p75"])
    return {
        "percentiles": [known[f"turns.p{q}"] for q in (25, 50, 75)],
        "fixed": [{k: v for k, v in record.items() if k != "extensions"} for record in fixed],
        "dynamic": budget(start, cap),
    }
