"""MatchTIR: fine-grained supervision of tool use by bipartite matching."""

from __future__ import annotations

from podium.core.term import Aggregate
from podium.method import Home, Method
from podium.methods._shared import ADAMW
from podium.methods.catalogue import recipe
from podium.methods.turns._shared import step_credit
from podium.parts.advantage import MixtureComponent
from podium.parts.objective import Entropy
from podium.parts.reward import MatchCalls

__all__ = ["matchtir"]


@recipe(
    summary="Turn-level tool-use rewards from bipartite matching of calls to a reference; dual-level advantages.",
    citation="MatchTIR: Fine-Grained Supervision for Tool-Integrated Reasoning via Bipartite Matching",
    tags=("tool use", "process reward", "turn-level", "credit assignment", "agents"),
    presets={"release": {"matching": "greedy"}, "transport": {"matching": "transport"}, "paper": {}},
    protocol=ADAMW.replace(
        model="Qwen3-8B",
        lr=1e-6,
        tasks=256,
        max_turns=10,
        source="MatchTIR Scripts/run.sh, ppo_trainer.yaml",
    ),
    home=Home("tools", level=2, iterations=8, tasks=8),
)
def matchtir(
    n: int = 16,
    gamma: float = 0.9,
    matching: str | None = "best",
    trajectory_scale: str = "std",
    kl: float = 0.001,
    entropy: float = 0.001,
    mini_batches: int = 8,
) -> Method:
    """A = ½ z(Σ rewards; task) + ½ z(discounted returns; task, turn number), unbiased std; a turn or rollout with
    nothing to compare to keeps its raw value. The reward of a turn is how well its calls match the reference calls.

    The losses are means over the tokens of each rollout, then over rollouts. On rollouts of one turn it is GRPO. The
    paper assigns calls for the largest total, the release takes the best pair first (`matchtir@release`).

    Args:
        n: Rollouts per task (the group size).
        gamma: Discount factor per turn.
        matching: `best` (largest total), `greedy` (best pair first) or `transport`; None: the world's turn rewards.
        trajectory_scale: `std` or `none` for the comparison of whole rollouts.
        kl: Coefficient of the KL penalty (k3) to the reference; 0 loads no reference model.
        entropy: Coefficient of the entropy bonus.
        mini_batches: Optimiser steps per batch.
    """
    whole = MixtureComponent(of="rollout.reward", rows="rollout", share=0.5, scale=trajectory_scale)
    turn = MixtureComponent(gamma=gamma, key=("group", "step.index"), share=0.5)
    method = step_credit(n, whole, turn, dual=3.0, kl=kl, mini_batches=mini_batches) | Entropy(coefficient=entropy)
    for term in method.objective:
        method = method.set(f"objective.{type(term).__name__}.aggregate", Aggregate("token mean, rollout mean"))
    return method if matching is None else method | MatchCalls(matching)
