"""SQIRL and the effective horizon."""

from __future__ import annotations

from podium.methods.catalogue import entry

entry(
    __name__,
    summary="The effective horizon: how many steps of value iteration on the random policy's values solve a process.",
    citation="The Effective Horizon Explains Deep RL Performance in Stochastic Environments, ICLR 2024, "
    "https://arxiv.org/abs/2312.08369, code: https://github.com/cassidylaidlaw/effective-horizon",
    kind="tool",
    run="podium lab sqirl",
    tags=("exploration", "value iteration", "sample complexity"),
    notes="""
    Q¹ belongs to the random policy, Q^{i+1}(s, a) = E[r + γ max Q^i(s′, ·)]. A process is k-solvable if acting
    greedily on Q^k is optimal. H_k = k + log_A(m_k), and the effective horizon is the smallest of them, at most T.
    SQIRL explores at random from step i on, regresses Monte-Carlo returns, improves them k − 1 times, and goes on
    with step i + 1.

    The code's: the bound m_k of deterministic tables. From memory: m_k = 1/Δ_k² of stochastic ones, where Δ_k is
    the smallest gap. The paper's: SQIRL solves as many environments as PPO and DQN, and its samples correlate with
    theirs. Ours: fifteen small stochastic processes (chains, grids, bandits, gymnasium's FrozenLake and
    CliffWalking, keydoor), regression on tables, and tabular Q-learning in place of deep networks.
    """,
)
