"""GiGPO: group-in-group policy optimisation for agents."""

from __future__ import annotations

from podium.method import Home, Method
from podium.methods._shared import ADAMW
from podium.methods.catalogue import recipe
from podium.methods.turns._shared import penalties, verl_agent
from podium.parts.advantage import GroupInGroup

__all__ = ["gigpo"]


@recipe(
    summary="Two-level credit assignment: rollouts of a task, and steps taken from the same anchor state.",
    citation="Feng et al. 2025, Group-in-Group Policy Optimization, https://arxiv.org/abs/2505.10978",
    tags=("credit assignment", "step-level", "multi-turn", "agents", "group-relative"),
    presets={
        "release": {},
        "paper": {"rows": "rollout", "invalid": 0.1, "max_turns": 50, "mini_batches": 12},
        "alfworld": {"max_turns": 50},
        "webshop": {"scale": "none", "max_turns": 15},
        "search": {"n": 5, "similarity": 0.9, "kl": 0.001, "max_turns": 4},
    },
    protocol=ADAMW.replace(
        model="Qwen2.5-1.5B-Instruct",
        lr=1e-6,
        tasks=16,
        iterations=150,
        max_tokens=512,
        max_turns=50,
        source="verl-agent examples/gigpo_trainer/run_alfworld.sh (ALFWorld), ppo_trainer.yaml",
    ),
    home=Home("keydoor", level=1, iterations=8, tasks=8),
)
def gigpo(
    n: int = 8,
    gamma: float = 0.95,
    omega: float = 1.0,
    scale: str = "std",
    rows: str = "step",
    similarity: float | None = None,
    clip: float = 0.2,
    kl: float = 0.01,
    entropy: float = 0.001,
    invalid: float = 0.01,
    max_turns: int | None = None,
    mini_batches: int = 4,
) -> Method:
    """A = A_episode + omega · A_step: outcomes against the mean of the group, and discounted returns of steps against
    the mean of those taken from the same state; `scale="std"` divides both by their std.

    An invalid action lowers the outcome and the return of its own step by `invalid`, and of no other. omega = 0 with
    `rows="rollout"` and `invalid=0` is GRPO. The release counts each step of a rollout in the episode's mean,
    `gigpo@paper` each rollout once, by its first step. It divides by the std on ALFWorld and in search, not on WebShop
    (`gigpo@webshop`); in search, states with 90 % of their characters in common count as the same (`gigpo@search`).

    The scripts take one optimiser step per 256 turns (64 on WebShop): up to 25 per batch of 128 rollouts, about 12 at
    the usual length of their episodes. Here a batch is split into `mini_batches` of whole rollouts.

    Args:
        n: Rollouts per task (the group size).
        gamma: Discount factor per step.
        omega: Weight of the step-level advantage.
        scale: `std` divides both advantages by their std, `none` does not.
        rows: What counts once in the episode's mean: each `step` or each `rollout`.
        similarity: Least share of matching characters at which two states count as the same (0.95 in the code's
            default, 0.9 in the search script); None: equal states.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip]; dual clip 3.
        kl: Coefficient of the KL penalty (k3) to the reference; 0 loads no reference model.
        entropy: Coefficient of the entropy bonus, which is on by default in this code base.
        invalid: Price of an invalid action. The scripts charge 0.1 where success pays 10, and 0.01 where it pays 1.
        max_turns: Turn limit of an episode; None: the world's.
        mini_batches: Optimiser steps per batch.
    """
    reward, penalty = penalties(invalid)
    advantage = GroupInGroup(gamma=gamma, omega=omega, scale=scale, rows=rows, similarity=similarity, penalty=penalty)
    return verl_agent(
        advantage, n, clip=clip, kl=kl, entropy=entropy, mini_batches=mini_batches, max_turns=max_turns, reward=reward
    )
