"""Rewards by vote."""

from __future__ import annotations

from typing import Any

import torch

from podium import Batch, methods
from podium.core.batch import Purpose
from tests.conformance.case import Case
from tests.conformance.registry import adapter


@adapter("ttrl")
def ttrl(case: Case) -> dict[str, Any]:
    answers, truth, trained = case["answers"], case["true_answer"], case.hyper["n_train"]
    method = methods.ttrl(**case.given(votes="n_votes", trained="n_train", epsilon="epsilon"))
    batch = Batch.from_rewards(
        torch.zeros(len(answers), dtype=torch.float64),
        [0] * len(answers),
        {
            "rollout.answer": ["" if a is None else a for a in answers],
            "rollout.correct": [a is not None and a == truth for a in answers],
            "rollout.purpose": [Purpose.train if i < trained else Purpose.vote for i in range(len(answers))],
        },
    )
    for part in (*method.reward, method.advantage, method.evaluate[0]):
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
            "majority_voting_reward": float(batch["group.vote.majority_ratio"]),
            "pass_at_all_votes": float(batch["group.vote.pass"]),
        },
    }
