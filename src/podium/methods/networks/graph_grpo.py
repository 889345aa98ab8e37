"""Graph-GRPO: which agents of a team talk to each other, credited edge by edge."""

from __future__ import annotations

from podium.core.term import Aggregate
from podium.method import Home, Method, Protocol, Role
from podium.methods.catalogue import recipe
from podium.parts.advantage import EdgeSuccess, Normalize
from podium.parts.objective import BernoulliKL, PolicyGradient
from podium.strategies import Choose

__all__ = ["graph_grpo"]

OF_GRAPHS = Aggregate("token sum, rollout mean")


@recipe(
    summary="A learned graph says which agents talk to each other; an edge is credited by the success of its graphs.",
    citation="Graph-GRPO: Stabilizing Multi-Agent Topology Learning via Group Relative Policy Optimization",
    tags=("multi-agent", "topology", "chooser", "group-relative", "credit assignment"),
    presets={"paper": {}, "graph": {"credit": "graph"}},
    protocol=Protocol(model="a graph attention network over frozen GPT-3.5-Turbo agents", lr=1e-4, source="Graph-GRPO"),
    home=Home("team", level=2, iterations=12, tasks=16, model="podium/chooser"),
)
def graph_grpo(n: int = 16, credit: str = "edge", kl: float = 0.01, epsilon: float = 1e-6) -> Method:
    """n graphs are drawn for each query, every edge by yes or no with probability p = σ(h_i W h_jᵀ). An edge's score S
    is the mean success of the graphs that have it; A = (S − mean) / (std + ε) over the query's edges. Loss = −(1/n)
    Σ_graphs Σ_edges present A · log p + kl · KL(p ‖ p_start), the exact KL of all edges.

    Absent edges get no gradient, so it is no unbiased policy gradient; `graph-grpo@graph` is: every edge, present or
    not, gets the advantage of its graph. Held-out teams are measured as drawn; at temperature 0 an edge is there where
    p > 0.5, as the paper's deterministic graphs are. Of the paper are the formula, 16 graphs, Adam at 1e-4 and the
    three layers of attention; the KL's coefficient, ε, and what edges get that no graph has, are ours, and so are the
    agents, which follow rules.

    Args:
        n: Graphs per query (the group size).
        credit: What is credited: each `edge`, or the whole `graph`.
        kl: Coefficient of the KL penalty to the start policy.
        epsilon: Added to the standard deviation.
    """
    by_edge = credit == "edge"
    gradient = PolicyGradient(ratio="none", aggregate=OF_GRAPHS)
    return Method(
        rollout=Choose(n=n),
        advantage=EdgeSuccess(epsilon) if by_edge else Normalize(epsilon=epsilon),
        objective=(
            gradient.replace(where="token.present", over="all") if by_edge else gradient,
            BernoulliKL(coefficient=kl, aggregate=OF_GRAPHS),
        ),
        roles=(Role("ref"),),
    )
