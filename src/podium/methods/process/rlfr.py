"""RLFR: flow rewards from the latent space of good trajectories."""

from __future__ import annotations

from podium.core.schedule import Count
from podium.core.shares import ShareOfRun, ShareOfTokens
from podium.core.term import Aggregate
from podium.core.updates import Updates
from podium.method import Home, Method, Phases, Protocol, Role
from podium.methods.catalogue import recipe
from podium.parts.advantage import SuffixSums
from podium.parts.objective import Clip, FlowMatch, PolicyGradient
from podium.parts.reward import FlowReward
from podium.strategies import Sample

__all__ = ["rlfr"]


@recipe(
    summary="Flow-matching reward on hidden states: tokens that deviate from correct rollouts are penalised.",
    citation="RLFR: Extending RL for LLMs with Flow Environment, https://github.com/Jinghaoleven/RLFR",
    tags=("hidden states", "process reward", "reward shaping", "token-level"),
    protocol=Protocol(
        model="Qwen2.5-Math-7B",
        lr=1e-6,
        betas=(0.9, 0.95),
        weight_decay=0.0,
        warmup=0.03,
        schedule="cosine",
        final=0.1,
        clip=1.0,
        tasks=128,
        iterations=313,
        max_tokens=1024,
        max_turns=1,
        source="Jinghaoleven/RLFR: openrlhf/scripts/train_ray_RLFR_lm_qwen2.5_7B.sh, openrlhf/openrlhf/cli/"
        "train_ppo_ray.py; iterations: 5 passes over 8,000 problems",
    ),
    home=Home("sums", level=2),
    presets={"paper": {"top_k": 15}, "token-pre": {"neighbour": "after"}, "online": {"pretrain": 0}},
)
def rlfr(
    n: int = 8,
    coefficient: float = 0.01,
    threshold: float = 0.6,
    top_k: Count = ShareOfTokens(15 / 1024),
    timestep: float = 0.8,
    neighbour: str = "before",
    clip: float = 0.2,
    dual: float = 3.0,
    pretrain: Count = ShareOfRun(0.2),
    flow_rate: float = 100.0,
    mini_batches: int = 8,
) -> Method:
    """A_t = (R − mean)/(std + 1e-9) + Σ_{s ≥ t} c_s, with c = −coefficient · n: n is the flow's score at a token,
    scaled to [0, 1] over the rollout, where it exceeds `threshold` and is one of the `top_k` largest. The flow is
    fitted to the tokens of right rollouts in the same updates, at 100 times the policy's learning rate. PPO's clip and
    dual clip 3; 8 updates per batch.

    coefficient = 0 is GRPO without KL penalty. The paper first fits the flow to expert texts: so do the first
    `pretrain` iterations, on the world's solutions, with the policy frozen. How long that is as a share of the run is
    ours: the authors pass twice over a set of expert texts. `@online` has no such stage. The release scores some models
    with the state of the token before and others with that of the one after (`@token-pre`), having fitted the flow on
    the latter: here both are one setting.

    Args:
        n: Rollouts per task (the group size).
        coefficient: Weight of the flow reward.
        threshold: Least normalised deviation that is penalised.
        top_k: Tokens per rollout that are penalised at most, or a share of the run's limit; 0: all.
        timestep: Time in [0, 1] at which the flow is evaluated.
        neighbour: Which token's state the flow is conditioned on: the one `before` or `after`.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
        dual: Dual clip: where the advantage is negative, the loss is at most dual · |A|.
        pretrain: Iterations that fit the flow to the world's solutions first, or a share of the run; 0: it follows the
            right rollouts from the start.
        flow_rate: Learning rate of the flow relative to the policy's.
        mini_batches: Optimiser steps per batch.
    """
    flow = Role("flow", source="flow", lr_ratio=flow_rate)
    method = Method(
        rollout=Sample(n=n),
        reward=(FlowReward(coefficient, threshold, top_k, timestep=timestep, neighbour=neighbour),),
        advantage=SuffixSums(of="token.reward.flow", step=1, skip_zero=False, epsilon=1e-9),
        objective=(
            PolicyGradient(clip=Clip(clip, clip, dual=dual), aggregate=Aggregate("token mean, rollout mean")),
            FlowMatch(neighbour=neighbour, where="rollout.correct"),
        ),
        updates=Updates(mini_batches=mini_batches),
        roles=(flow,),
    )
    if pretrain == 0:
        return method
    fit = FlowMatch(neighbour=neighbour, where="rollout.demonstration")
    solutions = Sample(n=1, demonstrations=("short",))
    fitting = Method("fit", rollout=solutions, objective=(fit,), updates=method.updates, roles=(flow,))
    return Phases(fitting.until(pretrain), method)
