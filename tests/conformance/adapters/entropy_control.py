"""Methods that steer the entropy of the policy."""

from __future__ import annotations

from typing import Any

import torch

from podium import methods
from podium.core import Signal
from podium.core.batch import Batch
from podium.core.value import Clock
from podium.memories.difficulty_control import by_difficulty
from tests.conformance.adapters.tokens import COLUMNS, functional, numbers
from tests.conformance.case import Case
from tests.conformance.helpers import credited, differentiate, mask, only, padded
from tests.conformance.registry import adapter

DIFFICULTIES = ("easy", "medium", "hard")


@adapter("spine")
def spine(case: Case) -> dict[str, Any]:
    if case.hyper["kind"] == "majority_reward":
        answers = case["answers"]
        batch = Batch.from_rewards([0.0] * len(answers), [0] * len(answers), {"rollout.answer": answers})
        (vote,) = methods.spine().reward
        found = vote(batch)
        return {"majority": found["group.majority"][0], "reward": found["rollout.reward"]}
    settings = case.given(share="fraction", low="low_quantile", high="high_quantile", band="band_weight")
    method = methods.spine(kl=case.hyper["kl_weight"], clip=case.hyper["clip_low"], **settings)
    method = method.set("objective.PolicyGradient.clip.high", case.hyper["clip_high"])
    batch = padded(case, COLUMNS | {"token.now.entropy": "entropy"})
    band = [term for term in method.objective if type(term).__name__ == "Entropy"]
    core = [term for term in method.objective if term not in band]
    policy = differentiate(core, batch, live=method.shape)
    for part in method.shape:
        batch = batch.with_columns(part(batch))
    forking = batch["token.selected"]
    return {
        "forking": numbers(batch, forking),
        "low": batch["rollout.band.low"],
        "high": batch["rollout.band.high"],
        "band_penalty": batch.to_padded(only(band[0].loss(batch), forking)),
        "policy_loss": policy.step.loss,
        "band_loss": band[0](batch),
        "loss": differentiate(method.objective, batch, live=method.shape).step.loss,
        "grad_logp": batch.to_padded(policy.grad_logp),
    }


@adapter("siren")
def siren(case: Case) -> dict[str, Any]:
    logits, there = case.tensor("logits"), mask(case)
    tokens = torch.zeros(logits.shape[:2])
    top_p, quantile = case.hyper["top_p"], case.hyper["quantile"]
    method = methods.siren(top_p=top_p, share=1 - quantile, coefficient=case.hyper["coefficient"])
    pull = method.objective[1].replace(target=case.hyper["anchor"])
    (signal,) = (need for need in pull.needs if isinstance(need, Signal))
    nucleus = only(functional("entropy", logits, tokens, top_p=top_p), there)
    batch = Batch.from_padded(there, list(range(len(there))), {signal.column: nucleus})
    for part in method.shape:
        batch = batch.with_columns(part(batch))
    return {
        "nucleus_entropy": nucleus,
        "full_entropy": only(functional("entropy", logits, tokens), there),
        "kept": numbers(batch, batch["token.peak"]),
        "mean_entropy": pull.mean_entropy(batch),
        "loss": pull(batch),
    }


@adapter("light-if", aside=("mean_coefficient",))
def light_if(case: Case) -> dict[str, Any]:
    if case.hyper["kind"] == "entropy_sft":
        logits, labels = case.tensor("logits")[:, :-1], case.tensor("labels")[:, 1:]
        there = torch.tensor([[label != case.hyper["ignore_label"] for label in row] for row in labels.tolist()])
        tokens = only(labels, there)
        columns = {f"token.now.{name}": functional(name, logits, tokens) for name in ("logp", "entropy")}
        method = methods.light_if("sft", share=case.hyper["token_ratio"], trade=case.hyper["entropy_coef"])
        batch = Batch.from_padded(there, list(range(len(there))), columns)
        return {"loss": differentiate(method.objective, batch, live=method.shape).step.loss}
    bonus = methods.light_if("rl").objective[1].replace(**case.given(scale="scale", cap="cap"))
    bonus = bonus.replace(coefficient=-bonus.coefficient)  # the case's bonus is to be raised, a loss to be lowered
    batch = padded(case, COLUMNS | {"token.now.entropy": "entropy"})
    leaves = {name: batch[name].clone().requires_grad_() for name in ("token.now.logp", "token.now.entropy")}
    batch = batch.with_columns(leaves)
    value = bonus(batch)
    slopes = torch.autograd.grad(value, list(leaves.values()))
    return {
        "entropy_bonus": value,
        "grad_logp": batch.to_padded(slopes[0]),
        "grad_entropy": batch.to_padded(slopes[1]),
    }


@adapter("qwenlong-aepo")
def qwenlong_aepo(case: Case) -> dict[str, Any]:
    kind = case.hyper["kind"]
    if kind == "task_advantage":
        method = methods.qwenlong_aepo().main().set("advantage.epsilon", case.hyper["epsilon"])
        batch = Batch.from_rewards(case.tensor("rewards"), case["groups"], {"rollout.domain": case["tasks"]})
        assert method.advantage is not None
        return {"advantages": method.advantage(batch)["rollout.advantage"]}
    (gate,) = methods.qwenlong_aepo(**case.given(low="low", high="high")).main().shape
    if kind == "gate":
        on, found = torch.tensor([case.hyper["negatives_on_at_start"]]), []
        for entropy in case["entropy"]:
            on = gate.negatives(torch.tensor([entropy], dtype=torch.float64), on)
            found.append(bool(on[0]))
        return {"negatives_on": found}
    advantage = case.tensor("advantages")
    batch = Batch.from_rewards(case.tensor("rewards"), [0] * len(advantage), {"rollout.advantage": advantage})
    return {"kept": gate.kept(batch, torch.tensor([case.hyper["negatives_on"]])).to(batch.dtype)}


@adapter("dcpo-distribution")
def dcpo_distribution(case: Case) -> dict[str, Any]:
    settings = {"target": "target_entropy", "cap": "max_alpha", "hot": "temperature_high", "cold": "temperature_low"}
    method = methods.dcpo_distribution(**case.given(success="success_threshold", **settings))
    (memory,) = method.memories
    method = method.at(Clock(values=memory.scalars({"entropy": case["entropy"]})))
    (part,) = method.shape
    logits, tokens, there = case.tensor("logits"), case.tensor("tokens"), mask(case)
    old = only(functional("logp", logits, tokens), there)
    target = only(functional("logp", logits, tokens, temperature=part.temperature), there)
    signals = [need.column for need in part.needs if isinstance(need, Signal)]
    columns = dict(zip(signals, (old, target), strict=True)) | {"rollout.reward": case.tensor("scores")}
    batch = credited(method, Batch.from_padded(there, case["groups"], columns))
    return {
        "old_logp": old,
        "old_logp_target": target,
        "temperature": part.temperature,
        "alpha": part.share(batch)[0],
        "advantages": batch.to_padded(batch["token.advantage"]),
    }


@adapter("rapo-forward-kl")
def rapo_forward_kl(case: Case) -> dict[str, Any]:
    settings = case.given(
        low="power_at_zero_reward", high="power_at_full_reward", kl="kl_weight", entropy="entropy_weight"
    )
    method = methods.rapo_forward_kl(clip=case.hyper["clip_low"], **settings)
    method = method.set("objective.PolicyGradient.clip.high", case.hyper["clip_high"])
    distance = methods.rapo_forward_kl().objective[-1]
    (anchor,) = (need for need in distance.needs if isinstance(need, Signal) and need.of == "ref")
    batch = padded(case, COLUMNS | {"token.now.entropy": "entropy", "rollout.reward": "rewards"})
    for part in (*method.annotate, *method.reward):
        batch = batch.with_columns(part(batch))
    logits, tokens = case.tensor("ref_logits"), case.tensor("tokens")
    power = batch["rollout.power"].tolist()
    tempered = torch.stack([functional("logp", z, t, power=p) for z, t, p in zip(logits, tokens, power, strict=True)])
    tempered = only(tempered, mask(case))
    flat = tempered[mask(case).bool()]
    batch = batch.with_columns({anchor.column: flat})
    outcome = differentiate(method.objective, batch)
    return {
        "reference_power": batch["rollout.power"],
        "tempered_ref_logp": tempered,
        "forward_kl": batch.to_padded(distance.distance(batch)),
        "loss": outcome.step.loss,
        "grad_logp": batch.to_padded(outcome.grad_logp),
    }


@adapter("ares-aepo")
def ares_aepo(case: Case) -> dict[str, Any]:
    kind = case.hyper["kind"]
    if kind == "entropy_reward":
        columns = dict(zip(case.hyper["columns"], zip(*case["rows"], strict=True), strict=True))
        names = ("hwe_count", "target", "difficulty", "correct", "alpha")
        return {"rows": [_explored(*row) for row in zip(*(columns[name] for name in names), strict=True)]}
    if kind == "window_entropy":
        _, part = methods.ares_aepo(window=case.hyper["window"]).annotate
        columns = {
            "token.sampler.entropy": case.tensor("entropy")[None],
            "token.trigger": torch.tensor([[trigger > 0 for trigger in case["trigger"]]]),
            "rollout.correct": torch.tensor([True]),
        }
        batch = Batch.from_padded(torch.ones(1, len(case["entropy"])), [0], columns)
        threshold = torch.tensor([case.hyper["threshold"]], dtype=torch.float64)
        found = part(batch.with_columns({"batch.moments.threshold": threshold}))
        return {
            "hwe_count": found["rollout.moments"][0],
            "below_count": found["rollout.moments.below"][0],
            "soft_cost": found["rollout.moments.excess"][0],
            "percentile95": found["rollout.moments.quantile"][0],
        }
    names = {"target_kl": "target", "decay": "ema_decay"}
    same = {name: name for name in ("interval", "log_step", "error_clip", "deadzone")}
    (memory,) = methods.ares_aepo().memories
    memory = memory.replace(**case.given(**names, **same))
    state, found = memory.initial(), []
    for step in case["steps"]:
        level = torch.tensor([DIFFICULTIES.index(name) for name in step["difficulty"]])
        state = memory.regulated(state, by_difficulty(torch.tensor(step["kl"], dtype=torch.float64), level))
        scalars = memory.scalars(state)
        found.append({name: scalars[f"beta.{name}"] for name in DIFFICULTIES})
    return {"beta": found}


def _explored(count: float, target: float, difficulty: str, correct: float, alpha: float) -> dict[str, float]:
    """The reward of a rollout with so many windows, among so many tasks with the target that it is their mean."""
    others = 200
    counts = torch.tensor([count, *[target] * others], dtype=torch.float64)
    level = torch.full((len(counts),), DIFFICULTIES.index(difficulty))
    columns = {
        "rollout.moments": counts,
        "rollout.moments.excess": torch.zeros_like(counts),
        "rollout.difficulty": level,
        "rollout.correct": torch.tensor([bool(correct), *[True] * others]),
        "batch.difficulty.alpha": torch.tensor([[alpha] * 3], dtype=torch.float64),
        "batch.difficulty.beta": torch.ones(1, 3, dtype=torch.float64),
    }
    (part,) = methods.ares_aepo().reward
    found = part(Batch.from_rewards(torch.zeros_like(counts), list(range(len(counts))), columns))
    return {
        "entropy_reward": float(found["rollout.reward.windows"][0]),
        "total": float(found["rollout.reward"][0]),
    }
