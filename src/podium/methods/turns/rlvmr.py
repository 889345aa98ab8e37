"""RLVMR: verifiable meta-reasoning rewards for long-horizon agents."""

from __future__ import annotations

from podium.core.schedule import Count
from podium.core.shares import ShareOfRun
from podium.core.updates import Updates
from podium.method import Home, Method, Protocol, Role
from podium.methods._taught import taught
from podium.methods.catalogue import recipe
from podium.methods.turns._shared import step_credit
from podium.parts.advantage import MixtureComponent
from podium.parts.annotate import ReadTags
from podium.parts.objective import Entropy
from podium.parts.reward import MetaReasoning
from podium.protocols.tagged import MetaTags
from podium.strategies import Draw, Sample

__all__ = ["rlvmr"]


@recipe(
    summary="Meta-reasoning rewards: steps tagged plan, explore, reflect or monitor are paid by verifiable rules.",
    citation="RLVMR: Reinforcement Learning with Verifiable Meta-Reasoning Rewards, https://arxiv.org/abs/2507.22844",
    protocol=Protocol(
        model="Qwen2.5-1.5B-Instruct",
        lr=1e-6,
        betas=(0.9, 0.999),
        warmup=0,
        schedule="constant",
        clip=1.0,
        tasks=16,
        iterations=113,
        max_tokens=1024,
        max_turns=30,
        source="https://github.com/Tencent/DigitalHuman, run_alfworld.sh: 100 iterations after the imitation",
    ),
    home=Home("keydoor", level=2, iterations=8),
    tags=("meta-reasoning", "process reward", "step-level", "agents", "multi-turn", "reflection"),
    presets={"paper": {"imitate": 13, "mini_batches": 15}, "config": {"omega": 0.5}},
)
def rlvmr(
    n: int = 8,
    imitate: Count = ShareOfRun(0.34),
    omega: float = 1.0,
    success: float = 10.0,
    malformed: float = 0.1,
    scale: str = "std",
    mini_batches: int = 4,
    kl: float = 0.01,
    entropy: float = 0.001,
) -> Method:
    """Turns write a kind of reasoning, `<planning>`, `<explore>`, `<reflection>` or `<monitor>`, then
    `<action>…</action>`. A = N(outcome − malformed · [wrong format]; rows of the task) + omega · N(meta reward; task,
    tag); a step that is alone with its tag keeps its reward.

    It begins with imitation of demonstrations in this format, whose end is the reference of the KL penalty. omega = 0
    is GRPO in which a rollout counts once for each of its steps. The paper's ½ A_outcome + ½ A_meta is omega = 1 up to
    the factor ½, as in the released script; the configuration file beside it says 0.5 (`rlvmr@config`).

    Args:
        n: Rollouts per task (the group size).
        imitate: Iterations that imitate the world's solutions in this format, before everything else; 0: none.
        omega: Weight of the meta-reasoning advantage.
        success: Factor of the world's reward: what a success is worth.
        malformed: Penalty for a turn in the wrong format.
        scale: `std` divides both advantages by their std, `none` does not.
        mini_batches: Optimiser steps per batch.
        kl: Coefficient of the KL penalty (k3) to the reference; 0 loads no reference model.
        entropy: Coefficient of the entropy bonus.
    """
    draw = Draw(format=MetaTags())
    outcome = MixtureComponent(of="step.reward.outcome", scale=scale)
    meta = MixtureComponent(of="step.reward.meta", key=("group", "step.tag"), share=omega, scale=scale)
    method = step_credit(n, outcome, meta, kl=kl).with_(
        rollout=Sample(n=n, draw=draw),
        annotate=(ReadTags(),),
        reward=(MetaReasoning(valid="step.well_formed", malformed=malformed, scale=success),),
        updates=Updates(mini_batches=mini_batches),
    )
    if kl:
        method = method | Role("ref", source="phase")
    return taught(method if entropy == 0 else method | Entropy(coefficient=entropy), imitate, draw)
