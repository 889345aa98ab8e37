"""Semantic uncertainty: entropy weighted by how dissimilar the embeddings of the likeliest next tokens are."""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import normalize

from podium.core.errors import PodiumError
from podium.policy.head.functionals import HeadRows, functional

__all__ = ["divergence", "semantic_divergence"]


def semantic_divergence(logp: Tensor, embeddings: Tensor, top_k: int = 20, metric: str = "cosine-entropy") -> Tensor:
    """[N] −F · H of the candidates [N, M] with these embeddings [N, M, D].

    F = Σ_{i≠j} p_i p_j cos(e_i, e_j) over the `top_k` likeliest, H = −Σ p log p over all, neither renormalised. The
    metrics `entropy` and `cosine` are H and −F alone.
    """
    entropy = -(logp.exp() * logp.where(logp.isfinite(), 0)).sum(-1)
    if metric == "entropy":
        return entropy
    best, place = logp.topk(min(top_k, logp.shape[-1]), dim=-1)
    p = best.exp()
    e = normalize(embeddings.gather(-2, place[..., None].expand(*place.shape, embeddings.shape[-1])), dim=-1)
    overlap = (p[..., None] * e).sum(-2).square().sum(-1) - (p[..., None] * e).square().sum((-2, -1))
    return -overlap if metric == "cosine" else -overlap * entropy


@functional("divergence")
def divergence(rows: HeadRows, top_k: int = 20, metric: str = "cosine-entropy") -> Tensor:
    """[N] `semantic_divergence` of the `top_k` likeliest tokens, by the model's input embeddings."""
    if rows.embeddings is None:
        raise PodiumError("Only the sampler computes the signal 'divergence': ask for it with of='sampler'.")
    logp, ids = rows.log_softmax.topk(min(top_k, rows.log_softmax.shape[-1]), dim=-1)
    return semantic_divergence(logp, rows.embeddings[ids].to(logp.dtype), top_k, metric)
