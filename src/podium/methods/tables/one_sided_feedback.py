"""Learning from one-sided feedback, with a panel that reports unfair pairs."""

from __future__ import annotations

from podium.methods.catalogue import entry

entry(
    __name__,
    summary="Online learning where labels are seen of accepted items only, with individual fairness by a panel's "
    "reports.",
    citation="Individually Fair Learning with One-Sided Feedback, 2022, https://arxiv.org/abs/2206.04475",
    kind="tool",
    run="podium lab one-sided-feedback",
    tags=("one-sided feedback", "individual fairness", "semi-bandit", "selective verification"),
    notes="""
    Whoever is rejected counts one half, and whoever is accepted 1 − y: differences between decisions are half of
    those of the error, and no label of a rejected item is ever read. Exp2 runs on importance-weighted estimates of
    these losses, plus λ · (h(i) − h(l)) for a pair (i, l) that the panel reports: one that a share of the auditors
    finds too different.

    The paper's: regret and the number of violations are sublinear at once; no code was found. Ours: λ and η (λ =
    k/ε, where ε is the margin by which the rules that regret is measured against are fairer than the panel asks; η
    for the horizon), loans of people with a known causal model, and the comparator, the best mixture of rules that
    is never reported, by a linear program.

    `podium.tables.one_sided` has Exp2, the perturbed leader, geometric resampling and the panel.
    """,
)
