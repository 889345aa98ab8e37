"""Aranyani: soft oblique forests with running group means."""

from __future__ import annotations

from podium.methods.catalogue import entry

entry(
    __name__,
    summary="Online group fairness without stored data: soft oblique forests, running means of decisions per group.",
    citation="Enhancing Group Fairness in Online Settings Using Oblique Decision Forests, ICLR 2024, "
    "https://arxiv.org/abs/2310.11401, code: https://github.com/brcsomnath/Aranyani",
    kind="tool",
    run="podium lab aranyani",
    tags=("fairness", "online learning", "decision trees", "demographic parity"),
    notes="""
    Every node's gap F between the groups' mean decisions, and the groups' mean gradients ḡ, are running averages.
    The penalty gradient λ · h′(F) · (ḡ₁ − ḡ₀) is added to that of the task; λ = 0 is plain learning, number for
    number.

    The code's: h′ is F within δ = 0.01 and sign(F) outside, not divided by δ, so that it jumps there; until both
    groups have been seen nothing is learned at all; averages are plain means (`vanilla`). The paper's: a better
    trade-off of accuracy and parity than online baselines. Ours: the stream of people, the networks that it is
    compared with (which store 200 people, or two), and the comparison of the smallest gap within five points of the
    best linear rule's accuracy.
    """,
)
