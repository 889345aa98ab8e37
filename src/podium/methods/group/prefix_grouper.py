"""Prefix Grouper: shared-prefix forward and backward for GRPO."""

from __future__ import annotations

from podium.method import Home, Method
from podium.methods.base.grpo import grpo
from podium.methods.catalogue import recipe

__all__ = ["prefix_grouper"]


@recipe(
    summary="Encodes the shared prompt of a group once, forward and backward; the numbers are exactly GRPO's.",
    citation="Liu et al. 2025, Prefix Grouper: Efficient GRPO Training through Shared-Prefix Forward, "
    "https://arxiv.org/abs/2506.05433",
    tags=("efficiency", "shared prefix", "long context"),
    kind="tool",
    run="podium train prefix-grouper",
    home=Home("sums", level=2),
)
def prefix_grouper(n: int = 8, clip: float = 0.2, kl: float = 0.0) -> Method:
    """GRPO. Every method of the catalogue is computed this way: texts with a common beginning go through the model
    once, at any depth, as a trie (`podium.policy.forward.pack`).

    prompt: O_P = Attn(Q_P, K_P, V_P), causal; answer g: O_g = Attn(Q_g, [K_P; K_g], [V_P; V_g]), which sees the whole
    prompt and its own tokens so far, at positions P, P + 1, …; no answer sees another. The first token of every answer
    is predicted by the prompt's last. K_P and V_P receive the sum of the answers' gradients, as G copies would.

    Tokens per prompt: P + Σ L_g instead of Σ (P + L_g), a saving of up to G times where prompts are long. With one
    answer per prompt it is the ordinary pass. Layers that mix positions other than by attention would break the
    equality. It has no training protocol of its own: that of the method whose numbers it computes, GRPO's here, is
    unchanged.

    Args:
        n: Rollouts per task (the group size).
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
        kl: Coefficient of the KL penalty (k3) to the reference; 0 loads no reference model.
    """
    return grpo(n=n, clip=clip, kl=kl)
