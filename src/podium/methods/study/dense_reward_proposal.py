"""Dense rewards and their risks: a reading, with what of it can be run."""

from __future__ import annotations

from podium.methods.catalogue import entry

entry(
    __name__,
    summary="Dense rewards that do not mislead: Shapley credit of text units, graph closeness, potentials, an alarm.",
    citation="Towards better dense rewards in Reinforcement Learning Applications, 2025, "
    "https://arxiv.org/abs/2512.04302",
    kind="reading",
    run="podium lab dense-reward-proposal",
    tags=("process reward", "credit assignment", "reward hacking", "shaping"),
    notes="""
    A proposal that joins two earlier papers and a plan.

    Credit of text units (SCAR): with v(S) the reward model's score of an answer in which only the units S are kept, a
    unit gets its Shapley value Σ_S |S|! (N − |S| − 1)! / N! · [v(S ∪ i) − v(S)], or, in blocks, its Owen value; the
    token rewards are R_KL + α · R_Shapley + (1 − α) · [t = T] · r(x, y). Credits sum to v(all) − v(none). A checker of
    final answers gives v(S) = 0 for nearly all S, and then they say nothing.

    Closeness in the graph of transitions that were seen (G4RL): a state farther than ε from all nodes is a new node, a
    step between nodes counts their edge, and closeness is fitted to the counts over the largest.

    A potential adds γ Φ(s′) − Φ(s), with Φ = 0 at the end: every return changes by −Φ(s₀), so the optimum stays.

    `podium.analysis.dense_rewards` has these formulas. `StepPotential`, `AnswerGain` and `Novelty` are dense rewards
    that runs can use, and the metric `ProxyGap` (`podium train grpo --with ProxyGap`) reports whether what is paid goes
    with what is wanted. `podium lab dense-reward-proposal` trains tables on potentials (of exact values; of closeness
    in the graph), on credit of spans (Shapley, Owen) and on a bonus that can be hacked.
    """,
)
