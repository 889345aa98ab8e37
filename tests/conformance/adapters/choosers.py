"""Policies that choose: edges of graphs, agents of teams, evidence, crops, tours; and voxels that refine a map."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch.distributions import Bernoulli, Categorical

from podium import methods
from podium.core.batch import Batch
from podium.core.bernoulli import bernoulli_logp
from podium.core.build import Rollout, Turn
from podium.parts.objective.importance import span_log_ratio
from podium.policy import Chooser
from podium.policy.choose.chooser import ScoredSets
from podium.protocols.option_set import LINKS, OptionRow, OptionSet, encode_set
from podium.tables.justified import debate_bonus, judge_loss, justified_reward
from podium.tables.tours import Routing, first_generation, population_order, tour_costs, tour_rewards
from podium.tables.voxel_gains import boundary_weight, label_entropy, likelier_labels, refined_maps, rewards_to_go
from tests.conformance.case import Case
from tests.conformance.helpers import by_rollout, credited, differentiate
from tests.conformance.registry import adapter


@adapter("graph-grpo")
def graph_grpo(case: Case) -> dict[str, Any]:
    graphs, epsilon = case["edge_in_graph"], case.hyper["epsilon"]
    rollouts = [
        Rollout(0, [Turn(edges)], columns={"reward": float(reward)})
        for edges, reward in zip(graphs, case["rewards"], strict=True)
    ]
    batch = Batch.from_rollouts(rollouts, dtype=torch.float64)
    logits = {name: torch.cat([case.tensor(name)] * len(graphs)) for name in ("edge_logits", "initial_edge_logits")}
    batch = batch.with_columns(
        {
            "token.now.log_odds": logits["edge_logits"],
            "token.ref.log_odds": logits["initial_edge_logits"],
            "token.now.logp": bernoulli_logp(logits["edge_logits"], batch["token.id"]),
        }
    )
    method = methods.graph_grpo(kl=case.hyper["kl_weight"], epsilon=epsilon)
    by_edge = credited(method, batch)
    gradient, _ = method.objective
    _, divergence = methods.graph_grpo(kl=1.0).objective
    edges = len(graphs[0])
    return {
        "edge_success_rate": by_edge["token.success"][:edges],
        "edge_advantages": by_edge["token.advantage"][:edges],
        "graph_advantages": credited(methods.graph_grpo(credit="graph", epsilon=epsilon), batch)["rollout.advantage"],
        "policy_loss": gradient(by_edge),
        "kl": divergence(by_edge),
        "loss": differentiate(method.objective, by_edge).step.loss,
    }


@adapter("mashost")
def mashost(case: Case) -> dict[str, Any]:
    if "node_probabilities" in case:
        return {"joint_logp": _joint_logp(case)}
    rollouts, rows = [], zip(case["trajectory_rewards"], case["action_rewards"], case["action_mask"], strict=True)
    for reward, worth, mask in rows:
        turns = [Turn([0], columns={"action_reward": float(x)}) for x, taken in zip(worth, mask, strict=True) if taken]
        rollouts.append(Rollout(0, turns, columns={"reward": float(reward)}))
    batch = Batch.from_rollouts(rollouts, dtype=torch.float64)
    epsilon = case.hyper["epsilon"]
    by_action = credited(methods.mashost(weight=case.hyper["action_weight"], epsilon=epsilon), batch)
    outcome = credited(methods.mashost(weight=0.0, epsilon=epsilon), batch)
    width = len(case["action_mask"][0])
    taken = [[*row, *[0.0] * (width - len(row))] for row in by_rollout(by_action, by_action["turn.advantage"])]
    return {
        "group_advantages": [row[0] for row in by_rollout(outcome, outcome["turn.advantage"])],
        "action_advantages": taken,
    }


def _joint_logp(case: Case) -> Any:
    """The log-probability of a role and its links, with probabilities in place of the network's scores."""
    nodes, links = case["node_probabilities"], case["edge_probabilities_given_node"]
    count, placed = len(nodes), len(links[0])
    blank = (0.0,)
    marks = ["option"] * count + ["source"] * placed
    options = OptionSet(LINKS, tuple(OptionRow(f"{n}", blank, mark) for n, mark in enumerate(marks)))
    rows = torch.zeros(1, count + placed, dtype=torch.float64)
    pairs = torch.zeros(1, count + placed, count + placed, dtype=torch.float64)
    rows[0, :count] = Categorical(probs=case.tensor("node_probabilities")).logits
    by_node = Bernoulli(probs=case.tensor("edge_probabilities_given_node")).logits
    pairs[0, count:, :count] = torch.stack(by_node.unbind(), 1)
    allowed = torch.tensor([[mark == "option" for mark in marks]])
    scored, context = ScoredSets(rows, pairs, allowed, torch.tensor([0])), encode_set(options)
    ids = [case["chosen_node"], *case["chosen_edges"]]
    chooser = Chooser({"features": 1, "width": 4, "layers": 1, "heads": 1})
    logp = chooser.signals_of(scored, [context], [ids], 1.0)["logp"]
    batch = Batch.from_rollouts([Rollout(0, [Turn(ids, context)])], dtype=torch.float64)
    return span_log_ratio(batch, logp, "turn", joint=True)[0]


@adapter("debate-reward")
def debate_reward(case: Case) -> dict[str, Any]:
    if "preferred" in case:
        preferred = torch.tensor(case["preferred"])
        loss, chance = judge_loss(case.tensor("judge_score_1"), case.tensor("judge_score_2"), preferred)
        return {"judge_loss": loss, "preference_probability_1": chance}
    scores = (case.tensor(f"judge_score_{of}") for of in ("action", "baseline"))
    debated = debate_bonus(*scores, bonus=case.hyper["debate_multiplier"])
    settings = {"share": case.hyper["lambda"], "scale": case.hyper["env_multiplier"]}
    return {
        "debate_reward": debated,
        "reward": justified_reward(case.tensor("env_reward"), debated, **settings),
    }


@adapter("bs-iris")
def bs_iris(case: Case) -> dict[str, Any]:
    kind = case.hyper["kind"]
    if kind == "boundary_weight":
        boundary, weight = boundary_weight(torch.tensor(case["label"]), case.hyper["kappa"])
        return {"boundary": boundary, "weight": weight}
    label, weight, clip = torch.tensor(case["label"]), case.tensor("weight"), case.hyper["clip"]
    if kind == "improvement_reward":
        before, after = case.tensor("before"), case.tensor("after")
        return {
            "cross_entropy_before": label_entropy(before, label, clip),
            "cross_entropy_after": label_entropy(after, label, clip),
            "reward": likelier_labels(before, after, label, weight, clip),
        }
    maps = refined_maps(case.tensor("start"), list(case.tensor("action")))
    rewards = [likelier_labels(a, b, label, weight, clip) for a, b in pairwise(maps)]
    return {
        "probability": torch.stack(maps),
        "reward": torch.stack(rewards),
        "return_to_go": torch.stack(rewards_to_go(rewards, case.hyper["gamma"])),
        "total_gain": likelier_labels(maps[0], maps[-1], label, weight, clip),
    }


def _log_odds(logits: torch.Tensor) -> torch.Tensor:
    """Of the second of two options."""
    return Bernoulli(probs=Categorical(logits=logits).probs[:, 1]).logits


@adapter("gf-screen")
def gf_screen(case: Case) -> dict[str, Any]:
    turns = [Turn([1], columns={"found": float(found), "lesion": 0.0}) for found in case["reward"]]
    batch = Batch.from_rollouts([Rollout(0, turns)], dtype=torch.float64)
    logits = case.tensor("new_logits").requires_grad_()
    old = case.tensor("old_logits")
    settings = case.given(floor="std_floor", limit="adv_clip", clip="clip_eps", kl="kl_coef")
    by_crop = credited(methods.gf_screen(**settings), batch)
    by_crop = by_crop.with_columns({"token.now.log_odds": _log_odds(logits), "token.old.log_odds": _log_odds(old)})
    surrogate = methods.gf_screen(**settings).objective[0]
    loss = surrogate.replace(ratio_limits=tuple(case.hyper["ratio_clamp"]))(by_crop)
    (gradient,) = torch.autograd.grad(loss, logits)
    return {"advantages": by_crop["turn.advantage"], "loss": loss, "grad_new_logits": gradient}


@adapter("earli")
def earli(case: Case) -> dict[str, Any]:
    coordinates, demand = (np.array(case[name], dtype=float) for name in ("coordinates", "demand"))
    routing = Routing(coordinates, demand, case.hyper["capacity"])
    cost = tour_costs(routing, case["tours"])
    earned = tour_rewards(routing, case["tours"])
    rollouts = [Rollout(0, [Turn([1])], columns={"reward": float(x)}) for x in earned]
    batch = Batch.from_rollouts(rollouts, dtype=torch.float64)
    seeds = case["tours"][: case.hyper["seeds"]]
    _, filled = first_generation(routing, seeds, case.hyper["population"], np.random.default_rng(0))
    return {
        "cost": cost.tolist(),
        "advantage_mean_baseline": credited(methods.earli(), batch)["rollout.advantage"],
        "population_order": population_order(cost).tolist(),
        "random_fill": filled,
    }
