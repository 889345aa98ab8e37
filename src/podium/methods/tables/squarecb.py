"""SquareCB: inverse gap weighting over a reward predictor."""

from __future__ import annotations

from podium.methods.catalogue import entry

entry(
    __name__,
    summary="Exploration by inverse gap weighting: a predictor of rewards becomes a policy with known propensities.",
    citation="Contextual Bandits in Payment Processing: Non-uniform Exploration and Supervised Learning at Adyen, "
    "2024; Foster and Rakhlin 2020, SquareCB, https://arxiv.org/abs/2002.04926",
    kind="tool",
    run="podium lab squarecb",
    tags=("bandit", "exploration", "propensities", "off-policy evaluation"),
    notes="""
    p(a) = 1 / (K + γ · (f(b) − f(a))) for every available action a other than the best one, b, which gets the rest.
    γ = 0 is uniform, γ → ∞ greedy. For any truth f*, Σ_a p(a) · (max f* − f*(a) − γ/4 · (f(a) − f*(a))²) ≤ K/γ: the
    bound that the regret O(√(K · T · Reg_sq)) rests on, held as a test.

    The paper's: regression oracles beat uniform exploration on payment traffic, but generations that learn from the
    one before may get worse, since better policies leave fewer failures to learn from. No code was released. Ours:
    payments with a known success rate of every route (routes that close, drift, late rewards), fitted by gradient
    boosting, and scikit-learn's digits as a bandit; γ of epochs, √(K · n).

    `podium.tables.inverse_gap` has the functions.
    """,
)
