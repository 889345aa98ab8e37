"""Search and tools: rewards of searches, calls, judgements, evidence and questions."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import torch

from podium import methods
from podium.analysis.refinement import refiner_gain
from podium.core.batch import Batch
from podium.core.build import Rollout, Turn
from podium.core.columns import Purpose
from tests.conformance.case import Case
from tests.conformance.helpers import LOSS_SETTINGS as CLIPS
from tests.conformance.helpers import aggregate, configured, credited, differentiate
from tests.conformance.registry import adapter


def group_of(columns: dict[str, Any], count: int) -> Batch:
    return Batch.from_rewards(torch.zeros(count, dtype=torch.float64), [0] * count, columns)


@adapter("ikea")
def ikea(case: Case) -> dict[str, Any]:
    texts = case["trajectories"]
    names = {"plus": "r_kb_plus", "minus": "r_kb_minus", "most": "max_searches", "malformed": "format_penalty"}
    method = methods.ikea(tags=True, **case.given(**names))
    columns = {"rollout.text": texts, "rollout.reference_answer": [case["gold_answers"][0]] * len(texts)}
    batch = credited(method, group_of(columns, len(texts)))
    rewards = batch["rollout.reward" if case["split"] == "train" else "rollout.matched"]
    return {"rewards": rewards.to(torch.float64), "grpo_advantages": batch["rollout.advantage"]}


@adapter("grpo-tcr")
def grpo_tcr(case: Case) -> dict[str, Any]:
    if "logp" in case:
        return _clipped(case)
    names = {"step": "tool_bonus", "cap": "wrong_cap", "max_length": "max_response_length"}
    names |= {"buffer": "overlong_buffer", "penalty": "overlong_factor"}
    method = methods.grpo_tcr(**{"max_length": 2, "buffer": 1} | case.given(**names))
    count = len(case["correct"])
    lengths = case.tensor("response_lengths") if "response_lengths" in case else torch.ones(count)
    columns = {"rollout.correct": torch.tensor(case["correct"]).bool(), "rollout.length": lengths}
    columns |= {"rollout.messages": case.tensor("num_turns")}
    tried, overlong = method.reward
    batch = group_of(columns, count)
    batch = batch.with_columns(tried(batch))
    scores = batch["rollout.reward"]
    batch = batch.with_columns(overlong(batch))
    assert method.advantage is not None
    batch = batch.with_columns(method.advantage(batch))
    return {
        "scores": scores,
        "overlong": batch["rollout.reward.overlong"],
        "rewards": batch["rollout.reward"],
        "grpo_advantages": batch["rollout.advantage"],
    }


def _clipped(case: Case) -> dict[str, Any]:
    method = configured(case, methods.grpo_tcr(), CLIPS)
    method = method.set("objective.PolicyGradient.aggregate", aggregate(case))
    columns = {"token.now.logp": "logp", "token.old.logp": "old_logp"}
    mask = case.tensor("mask")
    found = {column: case.tensor(name) for column, name in columns.items()}
    found["rollout.advantage"] = case.tensor("rollout_advantages")
    batch = Batch.from_padded(mask, list(range(len(mask))), found)
    return {"loss": differentiate(method.objective, batch).step.loss}


@adapter("carr")
def carr(case: Case) -> dict[str, Any]:
    if "rubrics" in case:
        (part,) = methods.carr().annotate
        part = part.replace(**case.given(answer="answer_entity"))
        columns = {
            "rollout.rubrics": [tuple(case["rubrics"])],
            "rollout.entities": [tuple(case["identified_entities"].items())],
            "rollout.supported": [tuple(map(bool, case["supported"]))],
            "rollout.cited": [(1,) if case["has_citations"] else ()],
        }
        batch = group_of(columns, 1)
        return {"rubric_reward": part(batch)["rollout.rubric"][0], "rubric_scores": part.scores(batch)[0]}
    modes = {"only_correct": "right", "only_positive": "right", "all": "all", "only_wrong": "wrong"}
    names = {"weight": "rubric_weight", "normalize": "normalize_by_group_max"}
    method = methods.carr(mode=modes[case.hyper["mode"]], **case.given(**names))
    outcomes = case.tensor("outcome_rewards")
    empty = Batch.from_rewards(outcomes, [0] * len(outcomes), {"rollout.rubric": case.tensor("rubric_rewards")})
    found = {}
    for name, built in (("published", method), ("in_code", method.set("reward.GatedMix.normalize", False))):
        (mix,) = built.reward
        batch = empty.with_columns(mix(empty))
        found[f"rewards_as_{name}"] = batch["rollout.reward"]
        found[f"advantages_as_{name}"] = built.advantage(batch)["rollout.advantage"]
    return found


@adapter("reseek")
def reseek(case: Case) -> dict[str, Any]:
    names = {"match": "r_match", "accepted": "penalty_accept_useless", "rejected": "penalty_reject_useful"}
    method = methods.reseek(obey=False, **case.given(threshold="threshold", gamma="gamma", **names))
    said = zip(case["judgements"], case["rerank_scores"], strict=True)
    turns = [Turn((), columns={"judged": word, "useful": float(score)}) for word, score in said]
    turns.append(Turn((), columns={"judged": "", "useful": 0.0}))
    rollout = Rollout(0, turns, columns={"reward": float(case["answer_reward"])})
    batch = Batch.from_rollouts([rollout], dtype=torch.float64)
    (part,) = method.reward
    found = part(batch)
    ideal = part.ideal(batch)
    return {
        "ideal": ["yes" if useful else "no" for useful in ideal[:-1].tolist()],
        "judge_rewards": found["turn.reward.judged"][:-1],
        "rollout_return": found["rollout.reward"][0],
    }


@adapter("nous")
def nous(case: Case) -> dict[str, Any]:
    method = methods.nous(outcome=0.0, **case.given(epsilon="epsilon"))
    (part,) = method.reward
    if "prior_per_attribute" in case:
        prior = case["prior_per_attribute"]
        answers = [{int(k): kept for k, kept in said.items()} for said in case["answers_per_turn"]]
        entropies, belief = part.path(prior, answers)
        return {
            "entropy": entropies,
            "information_gain": part.replace(unit="bits").gains(prior, answers),
            "turn_rewards": part.gains(prior, answers),
            "final_belief": [list(values) for values in belief],
        }
    prior = [[float(Fraction(1, size))] * size for size in case["attribute_domain_sizes"]]
    rollouts = [
        Rollout(
            0,
            [Turn((), columns={"allowed": [(a, (0,)) for a in resolved], "asked": "x", "state": "s"})],
            columns={"reward": 0.0, "belief": prior},
        )
        for resolved in case["attributes_resolved_by_question"]
    ]
    bits = method.set("reward.BeliefGain.unit", "bits")
    batch = credited(bits, Batch.from_rollouts(rollouts, dtype=torch.float64))
    return {"information_gain": batch["turn.reward.gain"], "advantages": batch["step.advantage"]}


@adapter("search-r2")
def search_r2(case: Case) -> dict[str, Any]:
    if "accept_probability" in case:
        probability, accept = case["trajectory_probability"], case["accept_probability"]
        cuts, values = case["cut_distribution"], case["prefix_value"]
        found = refiner_gain(probability, accept, cuts, values, case["trajectory_reward"])
        return {
            "regenerated_value": found.regenerated,
            "selection_precision": found.precision,
            "intervention_volume": found.volume,
            "trimming_skill": found.skill,
            "gain": found.gain,
        }
    answer = Turn((), columns={"searched": False, "useful": 0.0, "state": "known", "next_state": "answered"})
    rollouts = []
    for index, (outcome, bits) in enumerate(zip(case["outcome"], case["search_useful"], strict=True)):
        found_out = {"searched": True, "state": "before", "next_state": "after"}
        turns = [Turn((), columns={**found_out, "useful": float(bit)}) for bit in bits]
        columns = {"reward": float(outcome), "index": index, "parent": -1, "purpose": int(Purpose.train)}
        rollouts.append(Rollout(0, [*turns, answer], columns=columns))
    method = methods.search_r2(**case.given(epsilon="epsilon"))
    batch = credited(method, Batch.from_rollouts(rollouts, dtype=torch.float64))
    return {
        "process": batch["rollout.search_use"],
        "rewards": batch["rollout.reward"],
        "grpo_advantages": batch["rollout.advantage"],
    }
