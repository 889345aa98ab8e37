"""ViG-Bias: discover the slices on which a classifier fails from what it looked at, and mitigate them."""

from __future__ import annotations

from podium.methods.catalogue import entry

entry(
    __name__,
    summary="Failure slices from what a classifier looked at: Grad-CAM masks, slice discovery, then group DRO.",
    citation="Marani et al. 2024, ViG-Bias: Visually Grounded Bias Discovery and Mitigation, ECCV 2024, "
    "https://arxiv.org/abs/2407.01996, code: https://github.com/badrmarani/vig-bias-eccv",
    kind="study",
    run="podium lab vig-bias",
    tags=("bias", "slice discovery", "saliency", "worst group", "group dro", "vision"),
    notes="""
    Grounding: x · [heat ≥ its τ-quantile over the picture], τ = 0.7 keeps the top 30 %; τ = 0 is the plain method.
    Slices: DOMINO's mixture over embedding, label and prediction; with a covariance of predictions in their place,
    CoSi's in FACTS. Score: precision@10, for each true group that of its best slice. Mitigation: group DRO,
    q ← q · exp(η · loss), normalised, and a step on Σ q · loss with the new q. The functions are in
    `podium.tables.slices`.

    The code's: Grad-CAM of the first output, whatever the class (the arm `first output`); precision is divided by 10
    also for smaller slices. Ours: drawn digits among clutter, with a mark in a corner that agrees with the class in
    nine of ten pictures, instead of Waterbirds, CelebA and NICO++; a small network in place of the ResNet, another one,
    which has seen all digits and no label of this task, in place of CLIP; groups for DRO are each class inside and
    outside of its failing slices, in place of zero-shot CLIP with keywords. Bias-to-Text, which needs a captioner, is
    not here.
    """,
)
