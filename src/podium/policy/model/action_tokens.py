"""Tokens that become actions: their rows of the embedding and of the head begin at what describes them."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from podium.core.errors import PodiumError
from podium.policy.policy import Policy
from podium.protocols.pieces import ModelTokens, Pieces

__all__ = ["start_actions"]


@torch.no_grad()
def start_actions(policy: Policy, spelled: Mapping[str, str]) -> None:
    """Set the rows of each token to the mean of the rows of the tokens of its word, before a run begins."""
    model = policy.model
    tables = {id(t.weight): t.weight for t in (model.get_input_embeddings(), model.get_output_embeddings())}  # type: ignore[operator]
    if not all(weight.requires_grad for weight in tables.values()):
        raise PodiumError(
            "Tokens that become actions must be trained, and adapters leave them as they are: train without lora."
        )
    rows = {
        policy.written(Pieces(ModelTokens(token)), False)[0]: policy.written(word, False)
        for token, word in spelled.items()
    }
    for weight in tables.values():
        means = {token: weight[list(words)].mean(0) for token, words in rows.items()}
        for token, mean in means.items():
            weight[token] = mean
    policy.bump()
