"""SRGPO (SeeNav-Agent): step reward group policy optimisation."""

from __future__ import annotations

from podium.method import Home, Method
from podium.methods._shared import ADAMW
from podium.methods.catalogue import recipe
from podium.methods.turns._shared import penalties, verl_agent
from podium.parts.advantage import Mixture, MixtureComponent
from podium.parts.annotate import RandomBlocks
from podium.parts.reward import ProgressReward

__all__ = ["srgpo"]


@recipe(
    summary="Step-level advantages from verifiable step rewards in random groups, needing no identical states.",
    citation="SeeNav-Agent: Step Reward Group Policy Optimization, https://github.com/WzcTHU/SeeNav-Agent",
    extends="gigpo",
    tags=("step-level", "process reward", "credit assignment", "agents", "multimodal"),
    presets={"paper": {"n": 4, "max_turns": 20, "mini_batches": 40}},
    protocol=ADAMW.replace(
        model="Qwen2.5-VL-3B-Instruct",
        lr=1e-6,
        tasks=8,
        iterations=150,
        max_tokens=1024,
        max_turns=20,
        source="SeeNav-Agent examples/srgpo_trainer/run_ebnav.sh",
    ),
    home=Home("keydoor", level=1, dials={"progress": True}, iterations=8, tasks=8),
)
def srgpo(
    n: int = 8,
    omega: float = 0.5,
    size: int = 16,
    among: tuple[str, ...] = (),
    scale: str = "std",
    kl: float = 0.01,
    entropy: float = 0.001,
    progress: bool = True,
    invalid: float = 0.1,
    overlong: float = 0.1,
    max_turns: int | None = None,
    mini_batches: int = 4,
) -> Method:
    """A = N(outcome; rows of the task) + omega · N(reward of the step; random block of `size` steps).

    The reward of a step is 1 if it has come nearer to the goal, else 0. An invalid action and a turn that is cut off
    each cost 0.1, in the outcome and in the reward of that step, where success pays 1. omega = 0 is GRPO in which a
    rollout counts once for each of its steps. A block of one gives 0. The script takes one optimiser step per 8 turns,
    up to 80 per batch; here a batch is split into `mini_batches` of whole rollouts.

    Args:
        n: Rollouts per task (the group size).
        omega: Weight of the step-level advantage.
        size: Steps per random block.
        among: Where a block's steps come from: `()` the whole batch, `("group",)` or `("rollout",)`.
        scale: `std` divides both advantages by their std, `none` does not.
        kl: Coefficient of the KL penalty (k3) to the reference; 0 loads no reference model.
        entropy: Coefficient of the entropy bonus, which is on by default in this code base.
        progress: Reward steps that come nearer to the goal; False: the world's turn rewards.
        invalid: Price of an invalid action.
        overlong: Price of a turn that the limit of tokens cuts off.
        max_turns: Turn limit of an episode; None: the world's.
        mini_batches: Optimiser steps per batch.
    """
    charged, penalty = penalties(invalid, overlong)
    outcome = MixtureComponent(of="rollout.reward", scale=scale, penalty=penalty)
    step = MixtureComponent(key=(*among, "step.block"), share=omega, scale=scale, singleton="zero", penalty=penalty)
    method = verl_agent(
        Mixture((outcome, step)),
        n,
        clip=0.2,
        kl=kl,
        entropy=entropy,
        mini_batches=mini_batches,
        max_turns=max_turns,
        reward=((ProgressReward(),) if progress else ()) + charged,
    )
    return method | RandomBlocks(size, among)
