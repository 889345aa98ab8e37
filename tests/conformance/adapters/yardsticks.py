"""What is measured beside training: frontiers, cliffs, bilevel gradients, dense rewards."""

from __future__ import annotations

from typing import Any

from podium.analysis.bilevel import RewardDesign
from podium.analysis.coupling import (
    action_law,
    bits,
    blocks_within,
    bottleneck,
    code_mass,
    coupled,
    mutual_information,
    posterior_after,
)
from podium.analysis.dense_rewards import (
    discounted_return,
    owen_credit,
    potential_shaping,
    shaped_reward,
    shapley_credit,
    span_rewards,
    transition_graph,
)
from podium.evaluation.frontier import best_of_bound, best_of_law, kl_between, mean_under, tilt_within
from podium.parts.metric.reward_ties import (
    bound_holds,
    effective_reward,
    hard_policy,
    optimal_counts,
    reward_gap,
    reward_shift,
    soft_policy,
    stable_variation,
    total_variation,
)
from tests.conformance.case import Case
from tests.conformance.registry import adapter


@adapter("alignment-asymptotics")
def alignment_asymptotics(case: Case) -> dict[str, Any]:
    p, reward = case["p"], case["reward"]
    beta, tilted = tilt_within(p, reward, case.hyper["kl_budget"])
    best = best_of_law(p, reward, case.hyper["n"])
    return {
        "beta": beta,
        "tilted": tilted.tolist(),
        "tilted_kl": kl_between(tilted, p),
        "tilted_reward": mean_under(tilted, reward),
        "best_of_n": best.tolist(),
        "best_of_n_kl": kl_between(best, p),
        "best_of_n_kl_bound": best_of_bound(case.hyper["n"]),
        "best_of_n_reward": mean_under(best, reward),
        "kl_between": kl_between(best, tilted),
    }


@adapter("mec-b")
def mec_b(case: Case) -> dict[str, Any]:
    rate = case.hyper["rate"]
    if "message" in case:
        belief, rows, beliefs = case["message_prior"], [], []
        for policy, action in zip(case["policy_per_step"], case["actions"], strict=True):
            joint = bottleneck(belief, policy, rate)
            rows.append(action_law(joint, case["message"]).tolist())
            belief = posterior_after(joint, action)
            beliefs.append(belief.tolist())
        return {"action_probabilities_given_message": rows, "belief_per_step": beliefs}
    blocks = blocks_within(case["p"], rate)
    mass = code_mass(case["p"], blocks)
    joint = bottleneck(case["p"], case["q"], rate)
    return {
        "blocks": blocks,
        "code_mass": mass.tolist(),
        "code_entropy": bits(mass),
        "code_coupling": coupled(mass, case["q"]).tolist(),
        "joint": joint.tolist(),
        "mutual_information": mutual_information(joint),
    }


@adapter("policy-cliff")
def policy_cliff(case: Case) -> dict[str, Any]:
    if "weights" in case:
        return {"effective_reward": effective_reward(case.tensor("weights"), case.tensor("rewards_per_model"))}
    one, other = case.tensor("reward_1"), case.tensor("reward_2")
    alpha, tolerance = case.hyper["alpha"], case.hyper["tolerance"]
    soft = [soft_policy(reward, alpha) for reward in (one, other)]
    change, variation = reward_shift(one, other), total_variation(*soft)
    bound = stable_variation(change, alpha)
    return {
        "gap": reward_gap(one),
        "n_optimal": optimal_counts(one, tolerance),
        "soft_policy_1": soft[0],
        "soft_policy_2": soft[1],
        "soft_tv": variation,
        "hard_tv": total_variation(hard_policy(one, tolerance), hard_policy(other, tolerance)),
        "reward_change": change,
        "tv_bound": bound,
        "bound_holds": bound_holds(variation, bound),
    }


@adapter("parl")
def parl(case: Case) -> dict[str, Any]:
    nu = case.tensor("reward_parameters")
    design = RewardDesign.bandit(case.tensor("utility"), case.hyper["alpha"])
    return {
        "policy": design.policy(nu),
        "upper_value": design.worth(nu),
        "upper_gradient_theta": design.pull(nu)[0, 0],
        "hypergradient": design.gradient(nu),
        "finite_difference": design.finite_difference(nu),
    }


@adapter("dense-reward-proposal", aside=("total", "full_minus_empty", "block_total"))
def dense_reward_proposal(case: Case) -> dict[str, Any]:
    kind = case.hyper["kind"]
    if kind == "shapley_credit":
        return {"shapley": shapley_credit(case["value"]).tolist()}
    if kind == "owen_credit":
        return {"owen": owen_credit(case["value"], case["blocks"]).tolist()}
    if kind == "scar_reward":
        given = (case["credit"], case["span_end"], case["kl_reward"], case["terminal_reward"])
        return {"token_reward": span_rewards(*given, case.hyper["alpha"]).tolist()}
    if kind == "graph_update":
        graph = transition_graph(case["state"], case.hyper["eps"])
        return {name: getattr(graph, name).tolist() for name in ("nodes", "label", "adjacency", "target")}
    gamma = case.hyper["gamma"]
    shaping = potential_shaping(case["potential"], gamma)
    shaped = shaped_reward(case["reward"], case["potential"], gamma)
    return {
        "shaping": shaping.tolist(),
        "shaped_reward": shaped.tolist(),
        "return_plain": discounted_return(case["reward"], gamma).tolist(),
        "return_shaped": discounted_return(shaped, gamma).tolist(),
    }
