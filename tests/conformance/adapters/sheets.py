"""Rewards read from texts: layouts, diversity, information; and selection by tiers and by other models."""

from __future__ import annotations

from typing import Any

import torch

from podium import methods
from podium.core.batch import Batch
from podium.core.build import Rollout
from podium.evaluation.measure import measure
from podium.evaluation.passk import pass_at_k
from podium.memories import ModelRates
from podium.method import Phases
from podium.parts.reward import TextDiversity
from podium.parts.reward.text_diversity import diversity_scores, sentences_of, yule_k
from podium.parts.select import EasierTiers, HardMix
from podium.worlds.opinions import convergent_score, divergent_score
from tests.conformance.case import Case
from tests.conformance.helpers import credited, differentiate
from tests.conformance.registry import adapter

ENDS = {"declarative": ".", "interrogative": "?", "exclamatory": "!"}


def group_of(rewards: Any, columns: dict[str, Any]) -> Batch:
    return Batch.from_rewards(torch.tensor(rewards, dtype=torch.float64), [0] * len(rewards), columns)


@adapter("clinical-r1")
def clinical_r1(case: Case) -> dict[str, Any]:
    texts = case["responses"]
    names = {"accuracy": "w_accuracy", "layout": "w_format", "english": "w_english"}
    method = methods.clinical_r1(imitate=0, faithful=None, complete=None, **case.given(**names))
    columns = {"rollout.text": texts, "rollout.reference_answer": [case["gold_choice"]] * len(texts)}
    batch = credited(method, group_of([0.0] * len(texts), columns))
    (layout,) = method.reward
    plain = layout.replace(accuracy=1.0, layout=1.0, english=1.0)(batch)
    return {
        "accuracy": plain["rollout.reward.accuracy"],
        "format": plain["rollout.reward.layout"],
        "english": plain["rollout.reward.english"],
        "rewards": batch["rollout.reward"],
        "grpo_advantages": batch["rollout.advantage"],
    }


@adapter("multirole-r1")
def multirole_r1(case: Case) -> dict[str, Any]:
    if "role_answers" in case:
        return {
            "divergent_accuracy": [divergent_score(said, case["role_gold"]) for said in case["role_answers"]],
            "convergent_accuracy": [convergent_score(said, case["single_gold"]) for said in case["role_answers"]],
        }
    names = {"accuracy": "w_accuracy", "diversity": "w_diversity", "yule_scale": "yule_scale", "epsilon": "epsilon"}
    method = methods.multirole_r1(imitate=0, **case.given(**names))
    words = tuple(case["function_words"])
    method = method.set("reward.TextDiversity.function_words", words)
    texts = [
        " ".join(f"{' '.join(sentence)}{ENDS[kind]}" for sentence, kind in zip(sentences, kinds, strict=True))
        for sentences, kinds in zip(case["sentences"], case["sentence_types"], strict=True)
    ]
    batch = credited(method, group_of(case["accuracy"], {"rollout.text": texts}))
    (part,) = method.reward
    assert isinstance(part, TextDiversity)
    read = [sentences_of(text) for text in texts]
    return {
        "subscores": [diversity_scores(*found, words, float(part.yule_scale)) for found in read],
        "yule_k": [yule_k([word for sentence in sentences for word in sentence]) for sentences, _ in read],
        "diversity": batch["rollout.diversity"],
        "rewards": batch["rollout.reward"],
        "advantages": batch["rollout.advantage"],
    }


@adapter("info-consistent-grpo")
def info_consistent_grpo(case: Case) -> dict[str, Any]:
    pairs = case["items_of_variant_pairs"]
    names = {"information": "alpha", "stability": "beta", "epsilon": "epsilon"}
    method = methods.info_consistent_grpo(imitate=0, kl=0.0, task=0.0, **case.given(**names))
    columns = {
        "rollout.text": [" ".join(items) for pair in pairs for items in pair],
        "rollout.pair": torch.tensor([number for number, pair in enumerate(pairs) for _ in pair]),
    }
    empty = group_of([0.0] * len(columns["rollout.text"]), columns)
    batch = credited(method, empty)
    information, stability = method.reward
    helpful = information.replace(weight=1.0)(empty)
    of_pair = stability.replace(weight=1.0)(empty)
    of_group = stability.replace(weight=1.0, spread="group")(empty)
    aggregate = credited(method.set("reward.PhrasingStability.spread", "group"), empty)
    shape = (len(pairs), 2)
    return {
        "entropy": helpful["rollout.information"].reshape(shape),
        "helpfulness": helpful["rollout.reward.information"].reshape(shape),
        "gap": of_pair["rollout.phrasing_gap"].reshape(shape)[:, 0],
        "pair_stability": of_pair["rollout.reward.stability"].reshape(shape)[:, 0],
        "group_stability": of_group["rollout.reward.stability"][0],
        "rewards": batch["rollout.reward"].reshape(shape),
        "advantages_flat": batch["rollout.advantage"],
        "advantages_flat_with_group_stability": aggregate["rollout.advantage"],
    }


@adapter("fleming-r1")
def fleming_r1(case: Case) -> dict[str, Any]:
    if "pass_rate" in case:
        return _tiers(case)
    method = methods.fleming_r1(imitate=0, rounds=(), format=0.0)
    logp = [[x] for x in case["sequence_logp"]]
    mask = torch.ones(len(logp), 1, dtype=torch.float64)
    columns = {
        "token.now.logp": torch.tensor(logp, dtype=torch.float64),
        "rollout.reward": case.tensor("rewards"),
        "rollout.text": [""] * len(logp),
    }
    batch = credited(method, Batch.from_padded(mask, [0] * len(logp), columns))
    found = differentiate(method.objective, batch)
    return {"advantages": batch["rollout.advantage"], "loss": found.step.loss}


def _tiers(case: Case) -> dict[str, Any]:
    settings = case.given(hard="hard_if_pass_rate_at_most", share="hard_fraction")
    method = methods.fleming_r1(imitate=0, tiers=tuple(case.hyper["stage1_tiers"]), **settings)
    assert isinstance(method, Phases)
    easier, mixed = (child.select for child in method.children())
    assert isinstance(easier, EasierTiers)
    assert isinstance(mixed, HardMix)
    return {"stage1_pool": easier.pool(case["tier"]), "hard": mixed.hard(case.tensor("pass_rate"))}


@adapter("guru")
def guru(case: Case) -> dict[str, Any]:
    if "n_correct" in case:
        ks = case.hyper["k"]
        rows = [[pass_at_k(case["n_samples"], right, k) for k in ks] for right in case["n_correct"]]
        found = measure([_answers(case["n_samples"], right) for right in case["n_correct"]], ks)
        return {"pass_at_k": rows, "mean_over_prompts": [found[f"pass@{k}"].mean for k in ks]}
    method = methods.guru(measure=0, **case.given(high="drop_if_weak_at_least", low="drop_if_strong_at_most"))
    (memory,), (part,) = method.memories, method.keep
    assert isinstance(memory, ModelRates)
    tasks = list(range(len(case["weak_pass_rate"])))
    state = {
        "weak": dict(zip(tasks, case["weak_pass_rate"], strict=True)),
        "strong": dict(zip(tasks, case["strong_pass_rate"], strict=True)),
    }
    rewards = torch.zeros(len(tasks), dtype=torch.float64)
    batch = Batch.from_rewards(rewards, tasks, memory.recall(state, tasks))
    return {"keep": part(batch)["group.keep"]}


def _answers(count: int, right: int) -> list[Rollout]:
    """So many answers to a task, the first ones right."""
    columns = [{"correct": number < right, "answer": str(number), "reward": 0.0} for number in range(count)]
    return [Rollout("task", [], columns=found) for found in columns]
