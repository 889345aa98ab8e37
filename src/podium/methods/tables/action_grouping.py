"""Action grouping: coarser actions where samples are few."""

from __future__ import annotations

from podium.methods.catalogue import entry

entry(
    __name__,
    summary="Groups alike actions: fewer groups need fewer samples and approximate worse; the number of groups is "
    "chosen.",
    citation="Achieving Sample and Computational Efficient Reinforcement Learning by Action Space Reduction via "
    "Grouping, ICLR 2024, https://arxiv.org/abs/2306.12981",
    kind="tool",
    run="podium lab action-grouping",
    tags=("large action spaces", "model-based", "sample efficiency"),
    notes="""
    The lifted process plays a group by drawing one of its members: r̄ and P̄ are means over members. With spread
    δ_r of rewards and total variation δ_P within groups, V* − V^h ≤ (δ_r + γ · δ_P · span V*) / (1 − γ), held on
    random processes. The selector takes the grouping with the least c_a · width + c_e · √(m/n).

    The paper's: a moderate grouping beats both extremes when samples are few; its constants were not read, and no
    code was found. Ours: the bound above, processes with 64 actions in eight hidden clusters, groupings by complete
    linkage on noisy knowledge of the actions, planning from n samples per state.
    """,
)
