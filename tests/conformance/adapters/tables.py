"""Bandits, online learning, fairness, offline learning and off-policy evaluation: functions of podium.tables."""

from __future__ import annotations

from dataclasses import asdict
from statistics import fmean
from typing import Any

import numpy as np
import torch

from podium.tables.action_groups import best_grouping, lifted_process, pooled_means, spread_means
from podium.tables.allocation import PowerLaw, greedy_allocation
from podium.tables.better_action import actor_loss, better_action, filtered
from podium.tables.distraction import alternating_step, coded_parity_loss, gated_logistic, max_pair_loss
from podium.tables.group_gaps import change_probe, gap_summary, group_metrics, metric_differences, resample_counts
from podium.tables.information import decomposition, disparities, fair_optimum
from podium.tables.inverse_gap import greedy_action, inverse_gap_probabilities
from podium.tables.one_sided import capped_counts, exp2_round, perturbed_losses
from podium.tables.options import goal_weight, option_end, option_loss
from podium.tables.random_values import depth_targets, effective_horizon, monte_carlo_returns
from podium.tables.sleeping_experts import SleepingExperts
from podium.tables.slices import Slices, group_dro, precision_at, quantile_mask
from podium.tables.soft_forest import GroupAverages, parity_penalty, tree_output
from podium.tables.top_k import top_k
from tests.conformance.case import Case
from tests.conformance.registry import adapter


@adapter("squarecb")
def squarecb(case: Case) -> dict[str, Any]:
    losses = case.hyper["kind"] == "loss"
    prediction, available = case["prediction"], case["available"]
    p = inverse_gap_probabilities(
        prediction, case.hyper["gamma"], available=available, mu=case.hyper["mu"], losses=losses
    )
    return {"greedy": greedy_action(prediction, available, losses), "probability": p.tolist()}


@adapter("one-sided-feedback")
def one_sided_feedback(case: Case) -> dict[str, Any]:
    if "history_predictions" in case:
        given = ("history_predictions", "history_loss_estimate", "perturbation_predictions", "perturbation")
        loss = perturbed_losses(*(case[name] for name in given))
        return {
            "perturbed_loss": loss.tolist(),
            "chosen": int(loss.argmin()),
            "inverse_probability_estimate": capped_counts(
                case["resampling_counts"], case.hyper["resampling_cap"]
            ).tolist(),
        }
    inputs = ("hypothesis_predictions", "cumulative_loss", "played_hypothesis", "label_if_accepted", "auditor_distance")
    settings = case.given(eta="eta", weight="lambda", alpha="alpha", panel_fraction="panel_fraction")
    found = exp2_round(*(case[name] for name in inputs), **settings)
    return {
        "policy": found.policy.tolist(),
        "hypothesis_weights": found.weights.tolist(),
        "violation_fraction": found.fractions.tolist(),
        "reported_pair": None if found.pair is None else list(found.pair),
        "surrogate_loss": found.surrogate.tolist(),
        "loss_estimate_accept": found.accept.tolist(),
        "loss_estimate_reject": found.reject.tolist(),
        "hypothesis_loss": found.loss.tolist(),
        "new_cumulative_loss": found.cumulative.tolist(),
    }


@adapter("groupwise-regret")
def groupwise_regret(case: Case) -> dict[str, Any]:
    experts = SleepingExperts(len(case["active"][0]))
    probability, loss = [], []
    for active, row in zip(case["active"], case["loss"], strict=True):
        probability.append(experts.probability(active).tolist())
        loss.append(experts.update(active, row))
    return {
        "probability": probability,
        "learner_loss": loss,
        "final_regret": experts.regret.tolist(),
        "final_scale": experts.scale.tolist(),
    }


@adapter("adaptive-equitable-sampling")
def adaptive_equitable_sampling(case: Case) -> dict[str, Any]:
    curves = [PowerLaw(*row) for row in zip(case["floor"], case["scale"], case["exponent"], strict=True)]
    settings = case.given(budget="budget", step="step")
    found = greedy_allocation(curves, case["initial_counts"], case["cost"], case["weight"], **settings)
    return {
        "order": list(found.order),
        "final_counts": found.counts.tolist(),
        "budget_left": found.budget_left,
        "final_error": found.error.tolist(),
    }


@adapter("action-grouping")
def action_grouping(case: Case) -> dict[str, Any]:
    kind = case.hyper["kind"]
    if kind == "select_grouping":
        settings = case.given(samples="samples", approximation="c_approx", estimation="c_estimate")
        loss, best = best_grouping(case["groups"], case["width"], **settings)
        return {"loss": loss.tolist(), "best": best, "best_groups": case["groups"][best]}
    if kind == "pooled_mean":
        mean, count = pooled_means(case["action"], case["reward"], case["group"])
        estimate = spread_means(mean, case["group"])
        return {"group_mean": mean, "group_count": count, "action_estimate": estimate}
    found = lifted_process(case["reward"], case["transition"], case["group"], case.hyper["gamma"])
    return {
        "lifted_reward": found.reward.tolist(),
        "lifted_transition": found.transition.tolist(),
        "lifted_value": found.value.tolist(),
        "group_policy": found.policy.tolist(),
        "optimal_value": found.optimal.tolist(),
        "performance_loss": found.loss,
        "reward_spread": found.reward_spread,
        "transition_spread": found.transition_spread,
        "loss_bound": found.bound,
    }


@adapter("aranyani")
def aranyani(case: Case) -> dict[str, Any]:
    kind = case.hyper["kind"]
    if kind == "tree_forward":
        given = (case.tensor(name) for name in ("x", "weight", "bias", "leaf"))
        found = tree_output(*given, case.hyper["depth"])
        return dict(zip(("node_decision", "leaf_probability", "prediction"), found, strict=True))
    weight, delta = case.hyper["lam"], case.hyper["delta"]
    if kind == "penalty_gradient":
        given = [(case.tensor(f"{name}_group1"), case.tensor(f"{name}_group0")) for name in ("mean", "gradient")]
        penalty = parity_penalty(*given, weight, delta)
        return {"gap": penalty.gap, "slope": penalty.slope, "penalty_gradient": penalty.gradient}
    averages, steps = GroupAverages(case.hyper["mode"], case.hyper["beta"]), []
    for group, decision, gradient in zip(case["group"], case.tensor("decision"), case.tensor("gradient"), strict=True):
        averages.observe(group, decision, gradient)
        step = averages.penalty(weight, delta) if averages.ready else None
        steps.append(
            {
                "updated": averages.ready,
                "gap": step and step.gap.tolist(),
                "penalty_gradient": step and step.gradient.tolist(),
            }
        )
    return {"steps": steps}


@adapter("distraction-fairness")
def distraction_fairness(case: Case) -> dict[str, Any]:
    kind, attribute = case.hyper["kind"], torch.tensor(case["attribute"])
    if kind == "alternating_step":
        settings = case.given(lr_theta="lr_theta", lr_phi="lr_phi", eta="eta", leak="leak")
        x, y, theta, phi = (case.tensor(name) for name in ("x", "y", "theta", "phi"))
        found = alternating_step(gated_logistic, x, y, attribute, theta, phi, **settings)
        return {
            "fairness_loss_before": found.fairness_before,
            "phi": found.phi,
            "fairness_loss_after_phi_step": found.fairness_after,
            "task_loss_at_new_phi": found.task,
            "theta_gradient": found.gradient,
            "theta": found.theta,
        }
    output = case.tensor("output").requires_grad_()
    if kind == "max_pair_loss":
        loss, pair = max_pair_loss(output, attribute)
        return {"loss": loss.detach(), "pair": list(pair or ()), "grad_output": torch.autograd.grad(loss, output)[0]}
    settings = case.given(classes="classes", weight="alpha", reduction="reduction")
    loss, first, everybody = coded_parity_loss(output, attribute, **settings)
    return {
        "loss": loss.detach(),
        "first_class_mean": first.detach(),
        "overall_mean": everybody.detach(),
        "grad_output": torch.autograd.grad(loss, output)[0],
    }


@adapter("pid-federated-fairness")
def pid_federated_fairness(case: Case) -> dict[str, Any]:
    kind = case.hyper["kind"]
    if kind == "aglfop":
        bounds = case.hyper["eps_global"], case.hyper["eps_local"]
        return asdict(fair_optimum(case["count"], case["positive"], *bounds))
    return asdict(disparities(case["joint"]) if kind == "disparity" else decomposition(case["joint"]))


@adapter("llm-tabular-fairness")
def llm_tabular_fairness(case: Case) -> dict[str, Any]:
    kind, group = case.hyper["kind"], case["group"]
    if kind == "resample_counts":
        return resample_counts(group)
    if kind == "change_probe":
        return change_probe(case["before"], case["after"], group)
    if kind == "run_summary":
        per_run, summary = gap_summary(case["label"], case["runs"], group)
        return {"per_run": per_run, "summary": summary}
    groups, accuracy = group_metrics(case["label"], case["prediction"], group)
    return {"groups": groups, "difference": metric_differences(groups), "overall_accuracy": accuracy}


@adapter("sharpe-ratio-at-k")
def sharpe_ratio_at_k(case: Case) -> dict[str, Any]:
    settings = case.given(max_k="max_k", clip="clip", safety_threshold="safety_threshold")
    return asdict(top_k(case["estimated_value"], case["true_value"], case["behaviour_value"], **settings))


@adapter("sqirl")
def sqirl(case: Case) -> dict[str, Any]:
    if "transitions" in case:
        found = effective_horizon(case["transitions"], case["rewards"], case["horizon"])
        return {
            "k_min": found.k_min,
            "per_k": [list(row) for row in found.per_k],
            "effective_horizon": found.horizon,
        }
    gamma = case.hyper["gamma"]
    if "rewards" in case:
        return {"value_targets": monte_carlo_returns(case["rewards"], gamma).tolist()}
    inputs = (case[name] for name in ("monte_carlo", "reward", "done", "next_q"))
    return {"targets": depth_targets(*inputs, gamma).tolist()}


@adapter("ota")
def ota(case: Case) -> dict[str, Any]:
    if "t" in case:
        given = (torch.tensor(case[name]) for name in ("t", "goal_index", "final_index", "goal_in_same_trajectory"))
        end = option_end(*given, case.hyper["abstraction"])
        return {"option_end": end.index, "reward": end.reward, "mask": end.mask}
    if "value_subgoal" in case:
        now, subgoal = case.tensor("value_now"), case.tensor("value_subgoal")
        advantage, weight = goal_weight(now, subgoal, case.hyper["alpha"], case.hyper["cap"])
        return {"advantage": advantage, "weight": weight}
    heads = [(case.tensor(f"{name}_1"), case.tensor(f"{name}_2")) for name in ("target_next", "target_now", "value")]
    settings = case.given(discount="discount", expectile="expectile")
    found = option_loss(case.tensor("reward"), case.tensor("mask"), *heads, **settings)
    return {"q": found.target, "advantage": found.advantage, "weight": found.weight, "loss": found.loss}


@adapter("a2pr")
def a2pr(case: Case) -> dict[str, Any]:
    names = ("q_data", "q_vae", "value", "action_data", "action_vae")
    q_data, q_vae, value, data, candidate = (case.tensor(name) for name in names)
    target, weight = better_action(q_data, q_vae, value, data, candidate, case.hyper["mask"])
    loss = actor_loss(case.tensor("q_policy"), case.tensor("action_policy"), target, weight, case.hyper["alpha"])
    return {
        "target_action": target,
        "weight": weight,
        "bc_loss": loss.imitation,
        "q_scale": loss.scale,
        "actor_loss": loss.ascent,
        "total_loss": loss.total,
        "vae_weight": filtered(q_data, value),
    }


@adapter("vig-bias")
def vig_bias(case: Case) -> dict[str, Any]:
    kind, hyper = case.hyper["kind"], case.hyper
    if kind == "quantile_mask":
        kept = quantile_mask(case["heatmap"], case["image"], hyper["mask_threshold"])
        names = {"threshold": kept.threshold, "mask": kept.mask.tolist(), "kept_share": kept.kept}
        return names | {"masked_image": kept.picture.tolist()}
    if kind == "group_dro":
        weights, loss = group_dro(case["weight"], case["group_loss"], hyper["step_size"])
        return {"weights": weights.tolist(), "weighted_loss": loss}
    if kind == "precision_at_k":
        found = precision_at(case["responsibility"], case["group"], hyper["k"])
        return {"precision": {str(g): x for g, x in found.items()}, "mean_precision": fmean(found.values())}
    given = [np.array(case[name]) for name in ("weight", "mean", "variance")]
    if kind == "cosi_posterior":
        guessed = [np.array(case[f"prediction_{name}"]) for name in ("mean", "covariance")]
        mixture = Slices(*given, None, *guessed, prediction_weight=hyper["prediction_weight"])
        label = None
    else:
        probabilities = [np.array(case[name]) for name in ("label_prob", "prediction_prob")]
        mixture = Slices(
            *given, *probabilities, **case.given(label_weight="label_weight", prediction_weight="prediction_weight")
        )
        label = case["label_onehot"]
    found_slices = mixture.posterior(case["embedding"], case["prediction"], label)
    return {
        "responsibility": found_slices.responsibility.tolist(),
        "slice": found_slices.slice.tolist(),
        "mean_log_likelihood": found_slices.log_likelihood,
    }
