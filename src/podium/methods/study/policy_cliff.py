"""The policy cliff: where a small change of the reward moves the optimal policy."""

from __future__ import annotations

from podium.methods.catalogue import entry

entry(
    __name__,
    summary="How near a reward is to a cliff: ties among answers, and what a small change of the reward does.",
    citation="The Policy Cliff: A Theoretical Analysis of Reward-Policy Maps in Large Language Models, 2025, "
    "https://arxiv.org/abs/2507.20150",
    kind="metric",
    run="podium lab policy-cliff",
    tags=("reward hacking", "ties", "entropy bonus", "theory"),
    notes="""
    The optimal actions of a task are A* = {a: R(a) ≥ max R − tolerance}, and its gap is the best reward minus the
    second best. The optimal policy, uniform over A*, is unchanged by any change of the reward below half the gap; at a
    tie it jumps, however small the change. With an entropy bonus of weight α the optimum is softmax(R / α), and
    TV(π₁, π₂) ≤ ‖R₁ − R₂‖∞ / (2α(1 − γ)).

    A small extra reward ε · R′ (length, format, a process score) picks, among tied answers, those that are best for R′.
    Several rewards act as one, R(s, a) = Σ_k w_k(s) R_k(s, a), to which all of this applies.

    The metric `RewardTies` reports ties, gap, and the variation under an extra column for any run: `podium train grpo
    --with RewardTies`, or `--with \'RewardTies: {extra: rollout.length, weight: -0.001}\'`. `podium lab policy-cliff`
    trains tables on tied rewards with and without an entropy bonus. With binary rewards nearly every solved task that
    has several right answers is tied.
    """,
)
