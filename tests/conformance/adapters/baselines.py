"""GRPO with another centre or another scale."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from podium import methods
from podium.core.batch import Batch
from podium.core.build import Rollout
from podium.parts.shape import ConsistencyBlend
from podium.strategies.requests import Play, Request
from tests.conformance.case import Case
from tests.conformance.helpers import configured, credited, in_blocks, policy_loss
from tests.conformance.plans import collected, made
from tests.conformance.registry import adapter


@adapter("ngrpo")
def ngrpo(case: Case) -> dict[str, Any]:
    if "logp" in case:
        return policy_loss(case, methods.ngrpo(entropy=0.0))
    settings = case.given(virtual="num_virtual", max_reward="max_reward")
    method = configured(case, methods.ngrpo(**settings), {"epsilon": "advantage.epsilon"})
    return _advantage(method, Batch.from_rewards(case.tensor("rewards"), case["group_ids"]))


@adapter("mc-grpo")
def mc_grpo(case: Case) -> dict[str, Any]:
    reward = case.tensor("rewards")
    batch = Batch.from_rewards(reward, in_blocks(len(reward), case["group_size_with_extra"]))
    settings = case.given(epsilon="mad_epsilon")
    plain = credited(methods.mc_grpo(**settings), batch)
    compensated = credited(methods.mc_grpo(compensate=True, **settings), batch)
    return {
        "advantage": plain["rollout.advantage"],
        "pivot_excluded": [not kept for kept in plain["rollout.keep.pivot"].tolist()],
        "advantage_zero_compensated": compensated["rollout.advantage"],
    }


@adapter("lite-ppo")
def lite_ppo(case: Case) -> dict[str, Any]:
    reward = case.tensor("rewards")
    scopes: dict[str, tuple[str, ...]] = {"group": ("group",), "batch": ()}
    method = configured(case, methods.lite_ppo(), {"epsilon": "advantage.epsilon"})
    method = method.set("advantage.key", scopes[case.hyper["mean"]]).set("advantage.scope", scopes[case.hyper["std"]])
    return _advantage(method, Batch.from_rewards(reward, in_blocks(len(reward), case["group_size"])))


@adapter("canon")
def canon(case: Case) -> dict[str, Any]:
    metric = {"entropy": "entropy", "length": "rollout.length"}[case.hyper["metric"]]
    schedules = {"mu = batch mean reward": "reward", "mu = 1 - batch mean reward": "1 - reward"}
    mu = schedules[case.hyper["schedule"]] if "schedule" in case.hyper else case.hyper.get("mu", 1.0)
    method = methods.canon(metric=metric, mu=mu, **case.given(alpha="alpha", beta="beta", max_length="divisor"))
    # The metric comes with the case: it stands in a column of its own.
    method = method.set("advantage.metric", "rollout.metric")
    columns = {"rollout.metric": case.tensor("metric")}
    return _advantage(method, Batch.from_rewards(case.tensor("rewards"), case["group_ids"], columns))


@adapter("copo")
def copo(case: Case) -> dict[str, Any]:
    sizes = [len(row) for row in case["rewards"]]
    rewards, answers = ([x for row in case[name] for x in row] for name in ("rewards", "answers"))
    group = [g for g, size in enumerate(sizes) for _ in range(size)]
    batch = Batch.from_rewards(torch.tensor(rewards, dtype=torch.float64), group, {"rollout.answer": answers})
    settings = case.given(gamma="gamma", rho="rho")
    paths = {"epsilon": "advantage.epsilon"}, {"epsilon": "shape.ConsistencyBlend.epsilon"}
    method = configured(
        case, configured(case, methods.get("copo@formula", blend="advantages", **settings), paths[0]), paths[1]
    )
    (blend,) = method.shape
    assert isinstance(blend, ConsistencyBlend)
    blended = credited(method, batch)

    def rows(x: torch.Tensor) -> list[list[float]]:
        return [part.tolist() for part in x.split(sizes)]

    return {
        "local_advantage": rows(credited(method.with_(shape=()), batch)["rollout.advantage"]),
        "global_advantage": blend.between(batch),
        "entropy": blended["group.consistency.entropy"],
        "w_local": blended["group.consistency.weight"],
        "blended_advantage": rows(blended["rollout.advantage"]),
    }


@adapter("v0-5", aside=("bias_sq", "weight_empirical", "mse"))
def v0_5(case: Case) -> dict[str, Any]:
    method = methods.v0_5(**case.given(cost="cost", most="k_max"))
    reward, prior = case.tensor("rewards"), case.tensor("prior_value")
    low, high = case.hyper.get("reward_range", (-1, 1))
    signed = method.reward[0].replace(low=low, high=high)
    batch = Batch.from_rewards(reward, [0] * len(reward), {"group.prior": prior.reshape(1)})
    batch = credited(method.with_(reward=(signed,)), batch)
    asked: list[Request] = []

    def answers(request: Request) -> Sequence[Rollout]:
        assert isinstance(request, Play)
        asked.append(request)
        return made(request, case["rewards"] if request.wave == 0 else [high])

    collected(method.rollout.replace(n=len(reward), low=low, high=high), answers, recalled={"group.prior": prior})
    return {
        "baseline": batch["group.baseline"][0],
        "advantage": batch["rollout.advantage"],
        "one_step_gain": method.rollout.gain(batch["rollout.reward"], prior),
        "continue_sampling": len(asked) > 1,
    }


def _advantage(method: Any, batch: Batch) -> dict[str, Any]:
    return {"advantage": credited(method, batch)["rollout.advantage"]}
