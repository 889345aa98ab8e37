"""Continuations of a text."""

from __future__ import annotations

from typing import Any

import torch

from podium import methods
from podium.core.batch import Batch
from podium.parts.reward.continuation import SIMILARITY
from podium.policy.head.passage import mean_cosine
from podium.strategies.sample.continuations import chunk_probabilities, smoothed
from tests.conformance.case import Case
from tests.conformance.registry import adapter

KINDS = {"cosine_similarity": "cosine", "cosine": "cosine", "binary": "binary", "hybrid": "hybrid"}


@adapter("refine")
def refine(case: Case) -> dict[str, Any]:
    if "entropy" in case:
        return _places(case)
    method = methods.refine("mid", reward=KINDS[case.hyper["reward"]], **case.given(epsilon="epsilon"))
    tokens, truth = torch.tensor(case["predicted_tokens"]), case.tensor("truth_tokens")
    states = zip(case.tensor("predicted_hidden"), case.tensor("truth_hidden"), strict=True)
    columns = {
        "token.id": tokens,
        "token.truth": truth,
        "rollout.truth.length": torch.full((len(truth),), float(truth.shape[1]), dtype=torch.float64),
    }
    batch = Batch.from_padded(torch.ones(tokens.shape), [0] * len(tokens), columns)
    batch = batch.with_columns({SIMILARITY: torch.stack([mean_cosine(*pair) for pair in states])})
    for part in (*method.annotate, *method.reward, method.advantage):
        batch = batch.with_columns(part(batch))
    return {"reward": batch["rollout.reward"], "advantages": batch["rollout.advantage"]}


def _places(case: Case) -> dict[str, Any]:
    entropy, k, chunks = case.tensor("entropy"), case.hyper["k"], case.hyper["chunks"]
    strategy = methods.refine("mid", k=k, chunks=chunks, places="argmax").rollout
    return {
        "smoothed_entropy": smoothed(entropy, k),
        "chunk_probabilities": chunk_probabilities(entropy, chunks, k),
        "argmax_position": strategy.chosen(entropy, [0.5] * chunks),
    }
