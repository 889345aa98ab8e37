"""Which tasks to sample."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from podium import methods
from podium.core import Table
from podium.core.batch import Batch
from podium.memories import BetaBeliefs, DomainRewards, PassRates
from podium.parts.objective import KL
from podium.parts.select import InformationGain, Ranked, Thompson
from podium.parts.select.belief import information_gain
from podium.parts.select.domains import domain_shares
from podium.parts.select.scored import descending
from tests.conformance.case import Case
from tests.conformance.helpers import differentiate
from tests.conformance.registry import adapter


def beliefs(case: Case, memory: BetaBeliefs) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The state that a case describes, and what is known of its tasks: those of lower numbers come first."""
    tasks = list(range(len(case["alpha"])))
    counts = zip(case["alpha"], case["beta"], strict=True)
    state = {"counts": Table(dict(zip(tasks, counts, strict=True)), default=memory.prior)}
    known = {k: v for k, v in memory.recall(state, tasks).items() if isinstance(v, Tensor)}
    return state, known | {"group.random": torch.linspace(0.1, 0.9, len(tasks))}


def sampled(case: Case, memory: BetaBeliefs, state: dict[str, Any], chosen: list[int], rollouts: int) -> dict[str, Any]:
    """The beliefs after the chosen tasks had so many rollouts and the successes that the case names."""
    successes = case["successes_if_selected"]  # where they are no whole number, one of the rollouts has a share
    parts = {task: divmod(float(successes[task]), 1) for task in chosen}
    shares = {task: [1.0] * int(whole) + [rest] + [0.0] * rollouts for task, (whole, rest) in parts.items()}
    right = [share for task in chosen for share in shares[task][:rollouts]]
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
    batches = case["reward_buffer_oldest_first"]
    memory = memory.replace(every=len(batches))  # the deficits are taken once, of all batches
    state = {**memory.initial(), "history": case.inputs.get("history", {})}
    for items in batches:
        rewards = torch.tensor([item["reward"] for item in items], dtype=torch.float64)
        columns = {"rollout.correct": rewards, "rollout.domain": [item["domain"] for item in items]}
        state = memory.observe(state, Batch.from_rewards(rewards, list(range(len(items))), columns))
    deficit = state["deficit"]
    weights = method.select.weights(torch.tensor(list(deficit.values()), dtype=torch.float64))  # type: ignore[union-attr]
    counts = domain_shares(weights, case.hyper["batch_size"])
    return {
        "weights": dict(zip(deficit, weights.tolist(), strict=True)),
        "batch_counts": dict(zip(deficit, counts.tolist(), strict=True)),
        "new_history": state["history"],
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
    """The loss of one token on which each term has the value that the case gives it."""
    method = methods.one_shot_rlvr(**case.given(kl="kl_coef", entropy="entropy_coef", policy="policy_on"))
    if any(isinstance(term, KL) for term in method.objective):
        method = method.set("objective.KL.estimator", "k1")  # log π − log π_ref, of which any value can be made
    columns = {
        "token.now.logp": 0.0,
        "token.old.logp": 0.0,
        "token.ref.logp": -case["kl_loss"],
        "token.now.entropy": case["mean_entropy"],
        "token.advantage": -case["policy_loss"],
    }
    tokens = {name: torch.tensor([[x]], dtype=torch.float64) for name, x in columns.items()}
    return {"loss": differentiate(method.objective, Batch.from_padded(torch.ones(1, 1), [0], tokens)).step.loss}


@adapter("drive")
def drive(case: Case) -> dict[str, Any]:
    maps = [{int(task): rate for task, rate in rates.items()} for rates in case["pass_rate_before_each_phase"]]
    ids = sorted(maps[0])
    *_, method = methods.drive(keep=tuple(case.hyper["keep"]), iterations=(1,) * len(maps), pool=len(ids)).leaves()
    (memory,) = method.memories
    state, kept = memory.initial(), []
    for rates in maps:  # a sweep that measures, and one iteration of training
        state = memory.observe(state, _passing(rates))
        known = {**memory.recall(state, ids), "group.number": torch.tensor(ids)}
        kept.append([task for task, weight in zip(ids, method.select(known).tolist(), strict=True) if weight])
        state = memory.observe(state, _passing({task: rates[task] for task in kept[-1]}))
    return {"kept_by_phase": kept}


def _passing(rates: dict[int, float]) -> Batch:
    """A rollout of each task that is right at its rate."""
    rate = torch.tensor(list(rates.values()), dtype=torch.float64)
    return Batch.from_rewards(rate, torch.tensor(list(rates)), {"rollout.correct": rate})
