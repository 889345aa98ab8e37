"""TODO"""

from __future__ import annotations

from podium.method import Method
from podium.methods.base.grpo import grpo
from podium.methods.catalogue import recipe

__all__ = ["prefix_grouper"]


@recipe(
    summary="The prompt of a group is encoded once for all its answers, forward and backward; the numbers are GRPO's.",
    citation="Liu et al. 2025, Prefix Grouper: Efficient GRPO Training through Shared-Prefix Forward, "
    "https://arxiv.org/abs/2506.05433",
    kind="tool",
)
def prefix_grouper(n: int = 8, clip: float = 0.2, kl: float = 0.0) -> Method:
    """GRPO. Every method of the catalogue is computed so: texts that begin alike go through the model once, at any
    depth, as a trie. `podium.policy.forward.grouped` has the published layout, rows [prompt | answer 1 | answer 2 | …].

    prompt: O_P = Attn(Q_P, K_P, V_P), causal; answer g: O_g = Attn(Q_g, [K_P; K_g], [V_P; V_g]), which sees the whole
    prompt and its own tokens so far, at positions P, P + 1, …; no answer sees another. The first token of every answer
    is predicted by the prompt's last. K_P and V_P receive the sum of the answers' gradients, as G copies would.

    Tokens a prompt: P + Σ L_g instead of Σ (P + L_g), so a saving of G times where prompts are long. With one answer a
    prompt it is the ordinary pass. Layers that mix positions in another way than attention would break the equality.
    """
    return grpo(n=n, clip=clip, kl=kl)
