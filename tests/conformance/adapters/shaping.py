"""Bounded changes of rewards and advantages by entropy, perplexity, place and phrase."""

from __future__ import annotations

from typing import Any

import torch

from podium import methods
from podium.analysis.dynamics import bandit, expected_update
from podium.core.batch import Batch
from podium.parts.annotate.marks import in_grams
from podium.parts.metric.entropies import shannon
from tests.conformance.case import Case
from tests.conformance.helpers import padded
from tests.conformance.registry import adapter


@adapter("hicra")
def hicra(case: Case) -> dict[str, Any]:
    kind = case.hyper["kind"]
    if kind == "match":
        return {"planning": [int(x) for x in in_grams(case["tokens"], case["grams"])]}
    if kind == "semantic_entropy":
        return {"entropy": shannon(case["gram_counts"])}
    batch = padded(case, {"token.advantage": "advantages", "token.planning": "planning"})
    batch = batch.with_columns({"token.planning": batch["token.planning"].bool()})
    (tilt,) = methods.hicra(alpha=case.hyper["alpha"]).shape
    return {"advantages": batch.to_padded(tilt(batch)["token.advantage"])}


@adapter("pear", aside=("penalty",))
def pear(case: Case) -> dict[str, Any]:
    settings = case.given(alpha="alpha", score="correct_score", otherwise="format_reward")
    part = methods.pear(imitate=0, **settings).reward[-1]
    entropy = case.tensor("entropy")
    end = torch.tensor([place == case["end_of_thinking"] for place in range(len(entropy))])
    columns = {
        "token.sampler.entropy": entropy[None],
        "token.end_of_thinking": end[None],
        "rollout.correct": torch.tensor([bool(case["correct"])]),
    }
    found = part(Batch.from_padded(torch.ones(1, len(entropy)), [0], columns))
    return {
        "think_entropy": found["rollout.entropy.think"][0],
        "answer_entropy": found["rollout.entropy.answer"][0],
        "reward": found["rollout.reward"][0],
    }


@adapter("entropy-exchange-shaping")
def entropy_exchange_shaping(case: Case) -> dict[str, Any]:
    kind = case.hyper["kind"]
    settings = case.given(alpha="alpha", gamma="gamma", slope="slope")
    (part,) = methods.get("entropy-exchange-shaping@card", variant=kind, **settings).shape
    batch = padded(case, {"token.advantage": "advantages", "token.old.logp": "logp"})
    found = {}
    if kind == "perplexity":
        part = part.replace(epsilon=case.hyper["epsilon"])
        found = {"log_ppl": part.log_perplexity(batch), "weight": part.weights(batch)}
    else:
        found = {"bonus": batch.to_padded(part.bonus(batch))}
    return found | {"advantages": batch.to_padded(part(batch)["token.advantage"])}


@adapter("two-stage-negative")
def two_stage_negative(case: Case) -> dict[str, Any]:
    kind = case.hyper["kind"]
    if kind == "expected_logit_update":
        return {"update": expected_update(case.tensor("probabilities"), case.tensor("advantages"))}
    if kind == "bandit":
        start, rewards = case.tensor("initial"), case.tensor("rewards")
        rate, report = case.hyper["learning_rate"], case.hyper["report_steps"]
        return {
            "all_advantages": bandit(start, rewards, rate, report),
            "negative_only": bandit(start, rewards, rate, report, negative_only=True),
        }
    method = methods.two_stage_negative().set("advantage.epsilon", case.hyper["epsilon"])
    assert method.advantage is not None
    batch = Batch.from_rewards(case.tensor("rewards"), case["groups"])
    batch = batch.with_columns(method.advantage(batch))
    (negative,) = method.shape
    return {
        "advantages": batch["rollout.advantage"],
        "negative_only": negative(batch)["rollout.advantage"],
    }
