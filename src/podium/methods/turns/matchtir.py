"""TODO"""

from __future__ import annotations

from podium.method import Method
from podium.methods.catalogue import recipe
from podium.methods.turns._shared import step_credit
from podium.parts.advantage import MixtureComponent
from podium.parts.objective import Entropy
from podium.parts.reward import MatchCalls

__all__ = ["matchtir"]


@recipe(
    summary="Tool calls matched one to one to a reference; whole rollouts and turns at the same place compared.",
    citation="MatchTIR: Fine-Grained Supervision for Tool-Integrated Reasoning via Bipartite Matching",
    presets={"release": {"matching": "greedy"}, "transport": {"matching": "transport"}},
)
def matchtir(
    n: int = 16,
    gamma: float = 0.9,
    matching: str | None = "best",
    trajectory_scale: str = "std",
    kl: float = 0.001,
    entropy: float = 0.001,
) -> Method:
    """A = ½ z(Σ rewards; task) + ½ z(discounted returns; task, turn number), unbiased std; a turn or rollout without
    company keeps its raw value. The reward of a turn is how well its calls match the reference calls.

    The paper assigns calls for the largest total, the release takes the best pair first (`matchtir@release`).
    `matching=None` takes the world's rewards of turns. On rollouts of one turn it is GRPO.
    """
    whole = MixtureComponent(of="rollout.reward", rows="rollout", share=0.5, scale=trajectory_scale)
    turn = MixtureComponent(gamma=gamma, key=("group", "step.index"), share=0.5)
    method = step_credit(n, whole, turn, kl=kl) | Entropy(coefficient=entropy)
    return method if matching is None else method | MatchCalls(matching)
