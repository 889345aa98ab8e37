"""Adaptive equitable sampling: a budget spent by predicted learning curves."""

from __future__ import annotations

from podium.methods.catalogue import entry

entry(
    __name__,
    summary="Spends a data budget over groups by predicted learning curves: the largest weighted gain per cost first.",
    citation="Adaptive Sampling Strategies to Construct Equitable Training Datasets, FAccT 2022, "
    "https://arxiv.org/abs/2202.01327",
    kind="tool",
    run="podium lab adaptive-equitable-sampling",
    tags=("data selection", "learning curves", "fairness", "budget"),
    notes="""
    The error of a group with n samples is taken as e(n) = a + b · n^(−c), fitted to what was bought so far. The
    next step goes to the group with the largest w · (e(n) − e(n + s)) / (cost · s). For convex curves the greedy
    rule is optimal up to rounding, held against an exhaustive search in a test; identical groups are equalised.

    The paper's: adaptive sampling beats equal and representative shares on simulated polygenic scores. Its full
    text was not read: the formula is our concrete form of what its abstract describes. Ours: genomes of three
    ancestries (frequencies, linkage, partly shared effects, costs), ridge scores per ancestry, and curves from
    splits of what was bought.

    In training runs the select part `MarginalGain` divides a batch among domains in this way.
    """,
)
