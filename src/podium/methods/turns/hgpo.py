"""HGPO: hierarchy-of-groups policy optimisation for agents."""

from __future__ import annotations

from podium.method import Home, Method
from podium.methods._shared import ADAMW
from podium.methods.catalogue import recipe
from podium.methods.turns._shared import penalties, verl_agent
from podium.parts.advantage import NestedHistories

__all__ = ["hgpo"]


@recipe(
    summary="Step-level credit in nested groups that share the last k states; longer histories weigh more.",
    citation="Hierarchy-of-Groups Policy Optimization, https://github.com/langfengQ/verl-agent",
    extends="gigpo",
    tags=("credit assignment", "step-level", "multi-turn", "agents", "group-relative"),
    presets={
        "paper": {"invalid": 0.1, "max_turns": 50, "mini_batches": 12},
        "webshop": {"scale": "none", "max_turns": 30},
    },
    protocol=ADAMW.replace(
        model="Qwen2.5-1.5B-Instruct",
        lr=1e-6,
        tasks=16,
        iterations=160,
        max_tokens=512,
        max_turns=50,
        source="verl-agent recipe/hgpo/run_qwen2.5_1.5b_alfworld_train.sh (ALFWorld)",
    ),
    home=Home("keydoor", level=1, iterations=8, tasks=8),
)
def hgpo(
    n: int = 8,
    gamma: float = 0.95,
    history: int = 2,
    scale: str = "std",
    alpha: float = 1.0,
    drop_zero: bool = True,
    base_group: bool = False,
    clip: float = 0.2,
    kl: float = 0.01,
    entropy: float = 0.001,
    invalid: float = 0.01,
    max_turns: int | None = None,
    mini_batches: int = 4,
) -> Method:
    """A_t = Σ_k w_k A_k, with A_k the return of step t against the steps of the group with the same last k states (k =
    1 … history + 1, at least two members), w_k ∝ (k + 1)^alpha.

    An invalid action lowers the return of its own step by `invalid`. history = 0 is GiGPO's step advantage with the
    population std and without the episode part. Two public copies drop comparisons that are exactly 0 before weighting,
    one keeps them. On WebShop nothing is divided by the std (`hgpo@webshop`). The scripts take one optimiser step per
    256 turns (64 on WebShop), about 12 per batch; here a batch is split into `mini_batches` of whole rollouts.

    Args:
        n: Rollouts per task (the group size).
        gamma: Discount factor per step.
        history: Earlier states that the longest comparison must share.
        scale: `std` (population) or `none`.
        alpha: How much more longer histories weigh; 0: all the same.
        drop_zero: Leave out comparisons that are exactly 0 before weighting.
        base_group: Add the comparison of whole rollouts as k = 0.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip]; dual clip 3.
        kl: Coefficient of the KL penalty (k3) to the reference; 0 loads no reference model.
        entropy: Coefficient of the entropy bonus, which is on by default in this code base.
        invalid: Price of an invalid action. The scripts charge 0.1 where success pays 10, and 0.01 where it pays 1.
        max_turns: Turn limit of an episode; None: the world's.
        mini_batches: Optimiser steps per batch.
    """
    reward, penalty = penalties(invalid)
    advantage = NestedHistories(
        gamma=gamma,
        history=history,
        scale=scale,
        alpha=alpha,
        drop_zero=drop_zero,
        base_group=base_group,
        penalty=penalty,
    )
    return verl_agent(
        advantage, n, clip=clip, kl=kl, entropy=entropy, mini_batches=mini_batches, max_turns=max_turns, reward=reward
    )
