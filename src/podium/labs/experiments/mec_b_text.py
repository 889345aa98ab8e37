"""Bits hidden in text that the model could have written: are they read, and does the text give them away?"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from podium.analysis.hidden_text import found_in, hidden_in, surplus
from podium.labs.findings import Claim, StudySize
from podium.labs.trial import Quantity, Trial
from podium.policy.model.load import load

__all__ = ["STUDY"]

MODEL, CONTEXTS = "podium/tiny2", 200
READ = Quantity("read", "bits read right", (0.0, 1.0))
PER_TOKEN = Quantity("per_token", "bits per token", (0.0, float("inf")))
SURPLUS = Quantity("surplus", "surprise beyond the model's own (nats per token)")


class HiddenSize(StudySize):
    """How many messages there are, and of how many bits."""

    seeds: int = 8
    messages: int = 4
    bits: int = 32


def read_bits(same: bool, seed: int, size: HiddenSize) -> Mapping[str, ArrayLike]:
    """Answers to sums that hide a message: what the receiver reads is held against it, or against another message, as
    in text that hides nothing."""
    policy, rng = load(MODEL), np.random.default_rng(seed)
    read, per_token, excess = [], [], []
    for number in range(size.messages):
        contexts = [
            policy.encode([{"role": "user", "content": f"sum: {a} + {b}"}])
            for a, b in rng.integers(10, 100, size=(CONTEXTS, 2)).tolist()
        ]
        message, other = rng.integers(2, size=(2, size.bits)).tolist()
        answers = hidden_in(policy, contexts, message, seed=seed * size.messages + number)
        found = np.array(found_in(policy, contexts, answers, size.bits))
        read.append((found == (message if same else other)).mean())
        per_token.append(size.bits / sum(map(len, answers)))
        excess.append(surplus(policy, contexts, answers)[0].mean())
    return {"read": np.array(read), "per_token": np.array(per_token), "surplus": np.array(excess)}


STUDY = Trial(
    "mec-b-text",
    "Can bits be hidden in text that keeps the law of its model?",
    arms={"the message": partial(read_bits, True), "another message": partial(read_bits, False)},
    claims=(Claim("the receiver reads the message from the text", READ, "the message", "another message"),),
    readings=(READ, PER_TOKEN, SURPLUS),
    size=HiddenSize(),
    quick=HiddenSize(seeds=3, messages=2, bits=16),
)
