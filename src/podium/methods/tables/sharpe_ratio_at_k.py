"""SharpeRatio@k: what a selector of policies risks."""

from __future__ import annotations

from podium.methods.catalogue import entry

entry(
    __name__,
    summary="What the k best policies by an off-policy estimate are worth against their spread: return and risk.",
    citation="Towards Assessing and Benchmarking Risk-Return Tradeoff of Off-Policy Evaluation, ICLR 2024, "
    "https://arxiv.org/abs/2311.18207, code: https://github.com/hakuhodo-technologies/scope-rl",
    kind="metric",
    run="podium lab sharpe-ratio-at-k",
    tags=("off-policy evaluation", "checkpoint selection", "importance sampling", "risk"),
    notes="""
    SharpeRatio@k = max(0, best@k − J_b) / std@k over the true values of the k candidates with the highest
    estimates; J_b is the value of the logging policy. Invariant to adding a constant to all values and to scaling
    them.

    The code's: the numerator is clipped at 0, J_b has 1e-10 added, the standard deviation is that of a sample, and
    the ratio is clipped at 100 where asked. The paper's: it tells low-risk from high-risk estimators that errors,
    rank correlation and regret call equal. Ours: decision processes with exact values.

    `podium.tables.logged` has the estimators: direct method, importance sampling of whole rollouts and per
    decision, both self-normalised, and doubly robust.
    """,
)
