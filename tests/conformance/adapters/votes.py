"""Rewards by vote."""

from __future__ import annotations

from typing import Any

import torch

from podium import methods
from podium.core.batch import Batch
from podium.core.columns import Purpose
from tests.conformance.case import Case
from tests.conformance.helpers import padded, reported
from tests.conformance.registry import adapter


@adapter("ttrl")
def ttrl(case: Case) -> dict[str, Any]:
    answers, truth = case["answers"][: case.hyper.get("n_votes")], case["true_answer"]
    trained = case.hyper.get("n_train", len(answers))
    method = methods.ttrl(votes=len(answers), trained=trained, **case.given(epsilon="epsilon"))
    batch = Batch.from_rewards(
        torch.zeros(len(answers), dtype=torch.float64),
        [0] * len(answers),
        {
            "rollout.answer": ["" if a is None else a for a in answers],
            "rollout.correct": [a is not None and a == truth for a in answers],
            "rollout.purpose": [Purpose.train if i < trained else Purpose.vote for i in range(len(answers))],
        },
    )
    for part in (*method.annotate, *method.reward, method.advantage, method.metric[0]):
        batch = batch.with_columns(part(batch))
    reward = batch["rollout.reward"]
    return {
        "pseudo_label": batch["group.majority"][0] or None,
        "vote_rewards": reward,
        "train_rewards": reward[:trained],
        "train_advantages": batch["rollout.advantage"][:trained],
        "metrics": {
            "label_accuracy": float(batch["group.vote.label_accuracy"]),
            "reward_accuracy": float(batch["group.vote.reward_accuracy"]),
            "majority_ratio": float(batch["group.vote.majority_ratio"]),
            "ground_truth_ratio": float(batch["group.vote.ground_truth_ratio"]),
            "majority_voting_reward": reported(batch, "rollout.reward"),
            "pass_at_all_votes": float(batch["group.vote.pass"]),
        },
    }


@adapter("ttrv")
def ttrv(case: Case) -> dict[str, Any]:
    answers, trained = case["answers"], case.hyper.get("n_train", len(case["answers"]))
    names = {"entropy_weight": "entropy_weight", "frequency_weight": "frequency_weight", "epsilon": "epsilon"}
    method = methods.ttrv(votes=len(answers), trained=trained, **case.given(**names))
    columns = {
        "rollout.answer": [a or "" for a in answers],
        "rollout.purpose": [Purpose.train if i < trained else Purpose.vote for i in range(len(answers))],
    }
    batch = Batch.from_rewards(torch.zeros(len(answers), dtype=torch.float64), [0] * len(answers), columns)
    for part in (*method.annotate, *method.reward, method.advantage):
        batch = batch.with_columns(part(batch))
    return {
        "frequencies": batch["rollout.share"],
        "normalized_entropy": float(batch["group.disagreement"]),
        "rewards": batch["rollout.reward"],
        "train_advantages": batch["rollout.advantage"][:trained],
    }


@adapter("ettrl")
def ettrl(case: Case) -> dict[str, Any]:
    kind = case.hyper["kind"]
    if kind == "forks":
        names = {"trees": "trees", "points": "fork_points", "branches": "branches"}
        strategy = methods.ettrl(**case.given(**names)).rollout
        entropy = case["entropy"]
        return {
            "fork_positions": strategy.fork_points(entropy, [""] * len(entropy), 0.0),
            "rollouts": strategy.rollouts,
            "token_ratio": strategy.cost,
        }
    if kind == "clip":
        (part,) = methods.ettrl(reshape="clip", **case.given(limit="beta")).shape
        advantage = case.tensor("advantages")
        rows = advantage.reshape(-1)
        batch = Batch.from_rewards(torch.zeros_like(rows), [0] * len(rows), {"rollout.advantage": rows})
        return {"advantages": part(batch)["rollout.advantage"].reshape(advantage.shape)}
    part = methods.ettrl(floor=None).shape[0].replace(level="token")
    columns = {"token.sampler.entropy": "entropy", "token.advantage": "advantages"}
    found = padded(case, columns, group=[0] * len(case["mask"]))
    found = found.with_columns(part(found))
    return {
        "response_entropy": found["rollout.mean_entropy"],
        "weight": found["rollout.factor"],
        "advantages": found.to_padded(found["token.advantage"]),
    }
