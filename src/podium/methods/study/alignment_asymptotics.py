"""The frontier of reward and KL divergence, and best-of-N beside it."""

from __future__ import annotations

from podium.methods.catalogue import entry

entry(
    __name__,
    summary="Reward against KL divergence: the optimal tilt, best-of-N, and where a trained policy lies.",
    citation="Yang et al. 2024, Asymptotics of Language Model Alignment, https://arxiv.org/abs/2404.01730",
    kind="metric",
    run="podium eval RUN --frontier",
    tags=("best-of-n", "kl", "reward hacking", "theory"),
    notes="""
    Of all policies within a KL budget D of p, the tilt φ_β(y) = p(y) exp(r(y) / β) / Z_β has the highest mean reward,
    with β such that KL(φ_β ‖ p) = D. β is the slope of that frontier; D = 0 gives p, and a budget above −ln p(best)
    the best outcomes alone.

    The best of N draws has P(level v) = F(v)ᴺ − F(v−)ᴺ, inside a level of equal rewards in proportion to p, and
    KL ≤ ln N − (N − 1) / N. For sequences of m independent symbols and N = exp(mΔ), its reward per symbol tends to that
    of the tilt with KL mΔ, and its KL per symbol to Δ.

    `podium eval RUN --frontier` samples answers of the base and of the trained model, tilts the base's answers
    (weights exp(r / β), one β for all tasks), and draws frontier, best-of-N and the trained model in one plane.
    `podium lab alignment-asymptotics` computes the memoryless case exactly.

    From so many samples a reward that the base never had cannot be weighed: there the frontier is an underestimate,
    and the command says in how many tasks.
    """,
)
