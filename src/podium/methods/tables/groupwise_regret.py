"""Groupwise regret: one learner per overlapping group behind sleeping experts."""

from __future__ import annotations

from podium.methods.catalogue import entry

entry(
    __name__,
    summary="One online learner per overlapping group, combined by sleeping experts: small regret for every group "
    "at once.",
    citation="Oracle Efficient Algorithms for Groupwise Regret, 2023, https://arxiv.org/abs/2310.04652",
    kind="tool",
    run="podium lab groupwise-regret",
    tags=("online learning", "subgroups", "sleeping experts", "baseline"),
    notes="""
    AdaNormalHedge keeps a regret R and a scale C per expert; p ∝ ½ (Φ(R + 1, C + 1) − Φ(R − 1, C + 1)) over the
    experts that are awake, Φ(R, C) = exp(max(R, 0)² / 3C). For every expert R ≤ √(3 C · ln(N · B)), B = 1 + 3/2 ·
    mean(1 + ln(1 + C)), held as a test on random losses. Experts asleep are not touched.

    The paper's: lower error on all groups at once than one online regression; no code was found. Ours: recursive
    ridge regressions on people whose target differs by group and client, and on scikit-learn's diabetes patients;
    regret is against each group's best linear predictor in hindsight.
    """,
)
