"""BS-IRIS: every voxel is an agent that refines its label after each click of a user."""

from __future__ import annotations

from podium.methods.catalogue import entry

entry(
    __name__,
    summary="Voxels share one policy that adjusts their probabilities after each click, rewarded by what that gains.",
    citation="Ma et al. 2021, Boundary-aware Supervoxel-level Iteratively Refined Interactive 3D Image Segmentation "
    "with Multi-agent Reinforcement Learning, https://arxiv.org/abs/2303.10692",
    kind="tool",
    run="podium lab bs-iris",
    tags=("segmentation", "interactive", "multi-agent", "actor-critic", "reward shaping"),
    notes="""
    A voxel adds ±0.1, ±0.2 or ±0.4 to its probability, which stays within [0, 1], and earns w · (χ_before − χ_after)
    with the cross-entropy χ of its label; w = 1 + κ where a neighbour has the other label, else 1. Returns are
    Σ γ^k r; with γ = 1 they sum to the cross-entropy of the first map less that of the last, so a turn is judged by
    what it changes.

    No code was found. The abstract's: voxels as agents of one policy, supervoxels that the user clicks, a reward that
    is aware of the boundary. Of its predecessor IteR-MRL, by notes of others: state, moves that add, the difference of
    cross-entropies. Ours: the sizes of the moves, the form of w and κ = 2, hints without geodesic distance, cubes of 3
    voxels along an axis as supervoxels, an actor-critic of three convolutions with γ = 0.95, probabilities held within
    [0.01, 0.99] in the rewards that are trained on, and simulated scans of 12³ voxels in place of four data sets.
    """,
)
