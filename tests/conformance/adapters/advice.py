"""Texts that learn: edits of a library, and instructions that compete."""

from __future__ import annotations

import json
from typing import Any

import torch

from podium import methods
from podium.core.batch import Batch
from podium.memories.instructions import credited, selection_probabilities, strongest
from podium.memories.text_edits import Experience, apply_edits, read_edits
from podium.strategies.advice.experienced import group_is_used
from podium.strategies.advice.introspect import VoteCount
from podium.strategies.hints.segments_of_solution import prefixes_of
from tests.conformance.case import Case
from tests.conformance.registry import adapter


@adapter("training-free-grpo")
def training_free_grpo(case: Case) -> dict[str, Any]:
    method = methods.training_free_grpo(known=case.hyper.get("given_ground_truth", True))
    if "group_rewards" in case:
        known = method.rollout.known
        return {"group_is_used": {name: group_is_used(r, known) for name, r in case["group_rewards"].items()}}
    library = {name: Experience(text) for name, text in case["library"].items()}
    after = apply_edits(library, read_edits(json.dumps(case["plan"])) or [])
    return {"library": {name: experience.text for name, experience in after.items()}}


@adapter("inspo")
def inspo(case: Case) -> dict[str, Any]:
    (memory,) = methods.inspo(temperature=case.hyper["temperature"], rate=case.hyper["ema"]).memories
    weights = torch.tensor(case["weights"], dtype=torch.float64)
    used = torch.tensor(case["instruction_of_group"])
    reward = torch.tensor(case["mean_reward_of_group"], dtype=torch.float64)
    after = credited(weights, used, reward, memory.rate)
    return {
        "probabilities": selection_probabilities(weights, memory.temperature),
        "new_weights": after,
        "new_probabilities": selection_probabilities(after, memory.temperature),
        "survivors": strongest(after.tolist(), case.hyper["keep_after_pruning"]),
    }


@adapter("sparkle")
def sparkle(case: Case) -> dict[str, Any]:
    method = methods.sparkle(levels=case.hyper["levels"], unit="text").main()
    segments = method.rollout.segments(case["solution"])
    columns = {"rollout.correct": torch.tensor(case["correct"]), "rollout.formatted": torch.tensor(case["format_ok"])}
    (part,) = method.reward
    batch = Batch.from_rewards(torch.zeros(len(case["correct"])), [0] * len(case["correct"]), columns)
    reward = part.replace(formatted="rollout.formatted")(batch)["rollout.reward"]
    return {"segments": segments, "prefixes": prefixes_of(segments), "reward": reward}


@adapter("knowrl")
def knowrl(case: Case) -> dict[str, Any]:
    method = methods.knowrl(k=case.hyper["k"], threshold=case.hyper["keep_threshold"])
    labels = {"feasible": "yes", "infeasible": "no"}
    strategy, (reward,), (memory,) = method.rollout, method.reward, method.memories
    counts = [VoteCount.of([strategy.read(labels[vote]) for vote in votes]) for votes in case["votes"]]
    declared = [label == "feasible" for label in case["declared"]]
    columns = {
        "rollout.declared": torch.tensor(declared),
        **dict.fromkeys(("rollout.written", "rollout.fresh"), torch.tensor([True] * len(declared))),
        **{
            f"rollout.votes.{name}": torch.tensor([getattr(count, name) for count in counts], dtype=torch.float64)
            for name in ("feasible", "infeasible", "total")
        },
    }
    groups = list(range(len(declared)))
    batch = Batch.from_rewards(torch.zeros(len(declared), dtype=torch.float64), groups, columns)
    batch = batch.with_columns(reward(batch))
    batch = batch.with_columns(method.advantage(batch))
    return {
        "majority": ["feasible" if said else "infeasible" for said in batch["rollout.majority"].tolist()],
        "consensus": batch["rollout.consensus"],
        "agreement_with_declared": batch["rollout.agreement"],
        "keep_as_seed": memory.joins(batch),
        "advantages": batch["rollout.advantage"],
    }
