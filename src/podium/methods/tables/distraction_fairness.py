"""Distraction: a tiny module trained on the disparity alone."""

from __future__ import annotations

from podium.methods.catalogue import entry

entry(
    __name__,
    summary="A module of six numbers inside a classifier is trained to lower a parity gap while the rest follows "
    "the task.",
    citation="Distraction is All You Need for Fairness, 2022, https://arxiv.org/abs/2203.07593, code: "
    "https://github.com/yazdanimehdi/Distraction_Fairness",
    kind="tool",
    run="podium lab distraction-fairness",
    tags=("fairness", "demographic parity", "two objectives"),
    notes="""
    On every minibatch φ ← φ − lr_φ ∇_φ η · D(θ, φ), then θ ← θ − lr_θ ∇_θ CE(θ, φ). D is the largest squared
    difference of group means. Without leak θ is bit-identical over the first step and φ over the second; η = 0 is
    plain training.

    The code's: the loss that is called squashes probabilities a second time and compares the first class with
    everybody; in two of the scripts its gradient also stays on θ (the arm `released`). The paper's: lower bias at
    equal accuracy on Adult, Health, POKEC, NBA and CelebA. Ours: people with biased scores and proxies in place of
    those tables, lr_φ = 1e-3 for runs of a twentieth of the steps, a weighted sum of both losses as a further arm.
    """,
)
