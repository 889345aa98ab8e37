"""Rollouts of earlier iterations, and what stands beside them."""

from __future__ import annotations

from typing import Any

import torch

from podium import methods
from podium.core.batch import Batch
from podium.core.value import Clock
from podium.memories import PriorityReplay, SuccessReplay
from podium.memories.replay import is_recent, reward_to_beat
from podium.parts.reward import CallBonus
from tests.conformance.case import Case
from tests.conformance.helpers import Weights, credited, differentiate, padded
from tests.conformance.registry import adapter


@adapter("spear")
def spear(case: Case) -> dict[str, Any]:
    if case["part"] == "schedules":
        return _schedules(case)
    if case["part"] == "staleness":
        stored = case.tensor("stored_step").long()
        (memory,) = methods.spear(**case.given(max_age="tolerate_steps")).memories
        assert isinstance(memory, SuccessReplay)
        newest = max(case["stored_step"], default=0)
        return {"kept_steps": stored[is_recent(stored, newest, memory.max_age)]}
    (memory,) = methods.spear().memories
    assert isinstance(memory, SuccessReplay)
    state = {**memory.initial(), "means": [means for _, means in case["group_means_by_step"]]}
    rewards = case.tensor("stored_rewards")
    a = memory.advantages(state, Batch.from_rewards(rewards, [0] * len(rewards)))
    means = torch.tensor([x for step in state["means"] for x in step], dtype=torch.float64)
    return {"baseline_p50": reward_to_beat(means, rewards), "advantages": a, "kept": [int(x > 0) for x in a.tolist()]}


def _schedules(case: Case) -> dict[str, Any]:
    names = {"tool_over": "max_steps", "replay_over": "max_steps", "replay": "c_rep"}
    method = methods.spear(**case.given(**names))
    bonus, (memory,) = method.reward[0], method.memories
    assert isinstance(bonus, CallBonus)
    assert isinstance(memory, SuccessReplay)
    now = [(bonus.at(Clock(t)), memory.at(Clock(t))) for t in case["step"]]
    calls = torch.tensor(float(case["tool_calls"]), dtype=torch.float64)
    return {
        "replay_weight": [float(m.weight) for _, m in now],
        "tool_weight": [float(b.weight) for b, _ in now],
        "tool_reward": [float(b.bonus(calls)) for b, _ in now],
    }


@adapter("skywork-r1v2")
def skywork_r1v2(case: Case) -> dict[str, Any]:
    if case["part"] == "mpo":
        return _mpo(case)
    if case["part"] == "buffer":
        (memory,) = methods.skywork_r1v2(stage=2, **case.given(alpha="alpha")).memories
        assert isinstance(memory, PriorityReplay)
        a = case.tensor("advantages")
        admitted = memory.admits(Batch.from_rewards(a, [0] * len(a), {"rollout.advantage": a}))
        return {"stored": admitted.nonzero().reshape(-1), "sampling_probability": memory.probability(a)}
    settings = case.given(rule="w_rule", format="w_format", model="w_model")
    method = methods.skywork_r1v2(stage=2, score="rollout.score", **settings)
    columns = {"rollout.answered": case.tensor("format"), "rollout.score": case.tensor("reward_model")}
    rule = case.tensor("rule")
    batch = Batch.from_rewards(rule, [0] * len(rule), columns)
    return {"hybrid": method.reward[-1](batch)["rollout.reward"]}


def _mpo(case: Case) -> dict[str, Any]:
    """A pair of rollouts of one group: the chosen one has as many tokens as the case says, the other one has one."""
    weights = tuple(case.hyper.get("weights", (0.8, 0.2, 1.0)))
    rest = [0.0] * (case["chosen_tokens"] - 1)
    mask = torch.tensor([[1.0, *(1.0 for _ in rest)], [1.0, *rest]], dtype=torch.float64)

    def spread(name: str) -> torch.Tensor:
        return torch.tensor([[case[f"{name}_{which}"], *rest] for which in ("chosen", "rejected")], dtype=torch.float64)

    columns = {
        "token.now.logp": spread("logp"),
        "token.ref.logp": spread("ref_logp"),
        "rollout.reward": torch.tensor([1.0, 0.0], dtype=torch.float64),
        "rollout.correct": torch.tensor([True, False]),
        "batch.reward_shift": torch.tensor([case["reward_shift"]], dtype=torch.float64),
    }
    batch = Batch.from_padded(mask, [0, 0], columns)
    one = {"preference": (1.0, 0, 0), "quality": (0, 1.0, 0), "generation": (0, 0, 1.0), "total": weights}
    beta = case.given(beta="beta")
    terms = {name: methods.skywork_r1v2(stage=1, weights=w, **beta).objective for name, w in one.items()}
    return {name: differentiate(held, batch).step.loss for name, held in terms.items()}


@adapter("t1")
def t1(case: Case) -> dict[str, Any]:
    if case["part"] == "anchor":
        anchor, policy = Weights(case.tensor("anchor")), Weights(case.tensor("theta"))
        (role,) = methods.t1(**case.given(decay="decay")).roles
        found = []
        for _ in range(3):
            anchor.average(policy, role.decay)  # type: ignore[arg-type,misc]
            found.append(anchor.weights.tolist())
        return {"anchor_after_1_2_3_updates": found}
    method = methods.t1(warm=0, **case.given(kl="kl_coef", penalty="penalty"))
    columns = {"token.old.logp": "logp", "token.anchor.logp": "ref_logp", "rollout.reward": "correct"}
    batch = padded(case, columns, group=[0] * len(case["correct"]))
    batch = batch.with_columns({"rollout.degenerate": torch.tensor(case["bad_pattern"])})
    method = method.with_(annotate=())  # what is degenerate comes with the case
    plain, shaped = credited(method.with_(shape=()), batch), credited(method, batch)
    return {
        "rewards": shaped["rollout.reward"],
        "leave_one_out": plain["rollout.advantage"],
        "token_advantages": batch.to_padded(shaped["token.advantage"]),
    }
