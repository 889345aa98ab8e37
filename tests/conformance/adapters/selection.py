"""Which tasks to sample."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from podium import methods
from podium.core import Table
from podium.core.batch import Batch
from podium.memories import BetaBeliefs, DomainRewards, PassRates
from podium.parts.objective import KL, Entropy, PolicyGradient
from podium.parts.select import InformationGain, Ranked, Thompson
from podium.parts.select.belief import information_gain
from podium.parts.select.domains import domain_shares
from podium.parts.select.history import hardest
from podium.parts.select.scored import descending
from tests.conformance.case import Case
from tests.conformance.registry import adapter


def beliefs(case: Case, memory: BetaBeliefs) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The state that a case describes, and what is known of its tasks: those of lower numbers come first."""
    tasks = list(range(len(case["alpha"])))
    counts = zip(case["alpha"], case["beta"], strict=True)
    state = {"counts": Table(dict(zip(tasks, counts, strict=True)), default=memory.prior)}
    known = {k: v for k, v in memory.recall(state, tasks).items() if isinstance(v, Tensor)}
    return state, known | {"group.random": (torch.arange(len(tasks)) + 0.5) / max(len(tasks), 1)}


def sampled(case: Case, memory: BetaBeliefs, state: dict[str, Any], chosen: list[int], rollouts: int) -> dict[str, Any]:
    """The beliefs after the chosen tasks had so many rollouts and the successes that the case names."""
    successes = case["successes_if_selected"]  # where they are no whole number, one of the rollouts has a share
    right = [min(max(successes[task] - i, 0.0), 1.0) for task in chosen for i in range(rollouts)]
    owner = torch.tensor([task for task in chosen for _ in range(rollouts)])
    columns = {"rollout.correct": torch.tensor(right, dtype=torch.float64)}
    if right:
        state = memory.observe(state, Batch.from_rewards(columns["rollout.correct"], owner, columns))
    alpha, beta = state["counts"].read(range(len(case["alpha"])), torch.float64).unbind(1)
    return {"new_alpha": alpha, "new_beta": beta}


@adapter("vade")
def vade(case: Case) -> dict[str, Any]:
    method = methods.vade(**case.given(decay="decay_selected", decay_rest="decay_rest"))
    prior = case.given(prior_successes="prior_alpha", prior_failures="prior_beta")
    memory, select = method.memories[0].replace(**prior), method.select
    assert isinstance(memory, BetaBeliefs)
    assert isinstance(select, Thompson)
    state, known = beliefs(case, memory)
    scores = select.score(case.tensor("posterior_draws"))
    chosen = descending(scores, known["group.random"])[: case.hyper["select"]].tolist()
    after = sampled(case, memory, state, chosen, case.hyper["group_size"])
    return {"scores": scores, "selected": chosen, **after}


@adapter("insight")
def insight(case: Case) -> dict[str, Any]:
    method = methods.insight(**case.given(n="rollouts", eta="eta", mu="mu", discount="discount"))
    prior = case.given(prior_successes="prior_alpha", prior_failures="prior_beta")
    memory, select = method.memories[0].replace(**prior), method.select.replace(pool=None)  # type: ignore[union-attr]
    assert isinstance(memory, BetaBeliefs)
    assert isinstance(select, InformationGain)
    state, known = beliefs(case, memory)
    a, b = known["group.belief.successes"], known["group.belief.failures"]
    chosen = select.choose(known, min(case.hyper["select"], len(a))).tolist()
    return {
        "mean_belief": known["group.belief.mean"],
        "mutual_information": information_gain(a, b, select.rollouts),
        "weight": select.weight(known["group.belief.mean"]),
        "expected_variance_reduction": select.variance_reduction(a, b),
        "scores": select(known),
        "selected": chosen,
        **sampled(case, memory, state, chosen, select.rollouts),
    }


@adapter("rulereasoner")
def rulereasoner(case: Case) -> dict[str, Any]:
    decays = {"harmonic_series": "harmonic", "geometric_series": "geometric", None: "none", "ewma": "none"}
    method = methods.rulereasoner(**case.given(variant="variant", temperature="tau", size="buffer_size"))
    memory = method.memories[0].replace(**case.given(base="target_reward_base", alpha="alpha"))
    memory = memory.replace(decay=decays[case.hyper.get("decay", "harmonic_series")])
    assert isinstance(memory, DomainRewards)
    buffer: list[dict[str, tuple[float, float]]] = []
    for batch in case["reward_buffer_oldest_first"]:
        seen: dict[str, tuple[float, float]] = {}
        for item in batch:
            total, count = seen.get(item["domain"], (0.0, 0.0))
            seen[item["domain"]] = (total + item["reward"], count + 1)
        buffer.append(seen)
    history = case.inputs.get("history", {})
    deficit, means = memory.deficits(buffer[-memory.size :], history)
    weights = method.select.weights(torch.tensor(list(deficit.values()), dtype=torch.float64))  # type: ignore[union-attr]
    counts = domain_shares(weights, case.hyper["batch_size"])
    return {
        "weights": dict(zip(deficit, weights.tolist(), strict=True)),
        "batch_counts": dict(zip(deficit, counts.tolist(), strict=True)),
        "new_history": {**history, **means},
    }


@adapter("one-shot-rlvr")
def one_shot_rlvr(case: Case) -> dict[str, Any]:
    if case["part"] == "loss_terms":
        return _loss_terms(case)
    histories = [tuple(h) for h in case["accuracy_history"]]
    method = methods.one_shot_rlvr(shots=max(len(histories), 1))
    memory, select = method.memories[0], method.select
    assert isinstance(memory, PassRates)
    assert isinstance(select, Ranked)
    tasks = list(range(len(histories)))
    known = memory.recall({"rates": dict(zip(tasks, histories, strict=True))}, tasks)
    return {
        "variance_score": known["group.pass_rate.spread"],
        "lim_score": known["group.pass_rate.alignment"],
        "order": select.order({**known, "group.number": torch.arange(len(tasks))}),
    }


def _loss_terms(case: Case) -> dict[str, Any]:
    """The sum of the terms, each with the value that the case gives it."""
    settings = case.given(kl="kl_coef", entropy="entropy_coef", policy="policy_on")
    values = {
        PolicyGradient: case["policy_loss"],
        KL: case["kl_loss"],
        Entropy: -case["mean_entropy"],  # a bonus: its loss is −H
    }
    terms = methods.one_shot_rlvr(**settings).objective
    return {"loss": sum(float(term.coefficient) * values[type(term)] for term in terms)}


@adapter("drive")
def drive(case: Case) -> dict[str, Any]:
    maps = case["pass_rate_before_each_phase"]
    ids = sorted({int(problem) for rates in maps for problem in rates})
    rates = torch.full((len(ids), len(maps)), torch.inf, dtype=torch.float64)
    for phase, found in enumerate(maps):
        for problem, rate in found.items():
            rates[ids.index(int(problem)), phase] = rate
    keep = tuple(case.hyper["keep"])
    sets = hardest(rates, torch.tensor(ids), keep)
    return {"kept_by_phase": [[i for i, kept in zip(ids, members.tolist(), strict=True) if kept] for members in sets]}
