"""EPO: entropy-regularised policy optimisation for agents."""

from __future__ import annotations

from podium.core.schedule import Count, TwoPhases
from podium.core.shares import ShareOfRun
from podium.core.updates import Updates
from podium.memories import TurnEntropies
from podium.method import Home, Method, Protocol
from podium.methods._shared import anchored
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.objective import KL, BandPenalty, Clip, Entropy, PolicyGradient
from podium.parts.shape import TurnBand
from podium.strategies import Sample

__all__ = ["epo"]


@recipe(
    summary="Entropy bonus for multi-turn agents, smoothed to a band around each turn's historical entropy.",
    citation="Entropy-regularized Policy Optimization for LLM Agents, https://github.com/WujiangXu/EPO",
    tags=("entropy", "entropy collapse", "multi-turn", "agents", "exploration"),
    presets={
        "hinge": {"kind": "hinge"},
        "alfworld": {"penalty": 0.1, "turns": 50},
        "config": {"low": 0.8, "high": 1.2},
        "paper": {"turns": 30, "over": 150},
    },
    protocol=Protocol(
        model="Qwen2.5-7B-Instruct",
        lr=3e-6,
        betas=(0.9, 0.999),
        weight_decay=0.01,
        warmup=0.1,
        schedule="cosine",
        final=0.2,
        clip=1.0,
        tasks=16,
        iterations=125,
        max_tokens=512,
        max_turns=30,
        source="EPO README.md, examples/general_running_server.sh (ScienceWorld)",
    ),
    home=Home("keydoor", level=1, iterations=8, tasks=8),
)
def epo(
    n: int = 8,
    turns: int = 5,
    low: float = 0.0,
    high: float = 2.0,
    penalty: float = 0.05,
    kind: str = "step",
    test: str = "token",
    bonus: float = 0.001,
    smooth: float = 1.0,
    over: Count = ShareOfRun(1.0),
    clip: float = 0.2,
    kl: float = 0.01,
    mini_batches: int = 4,
) -> Method:
    """loss = L_pg − bonus · (mean H − smooth · mean P), with P = penalty · phase where the entropy of a token at turn k
    is outside (low · H̄_k, high · H̄_k): H̄_k is the mean over iterations of the entropy at turn k, and the phase falls
    from 1 over `over` iterations. P acts once a rollout of the batch reaches the second half of the `turns`.

    penalty = 0 is GRPO with an entropy bonus. P is locally constant in the policy: as published and released it changes
    the reported loss but not the policy. `epo@hinge` penalises the distance to the band instead, whose gradient leads
    back. The defaults are the README's runs, with the band (0, 2); the configuration's default band is `epo@config`.
    They are those of GRPO: the released script for PPO never passes the settings of the band to the trainer, so that
    its runs are PPO with an entropy bonus (here `ppo` with `Entropy(coefficient=0.001)`). The scripts take one
    optimiser step per 64 or 256 turns; here a batch is split into `mini_batches` of whole rollouts.

    Args:
        n: Rollouts per task (the group size).
        turns: Turns of an episode for which history is kept, K: as many as it may have (30 on ScienceWorld, 50 on
            ALFWorld).
        low: Lower end of the band, as a multiple of the historical entropy.
        high: Upper end of the band, as a multiple of the historical entropy.
        penalty: Size of the penalty outside the band.
        kind: `step` (a constant outside the band, as published) or `hinge` (the distance to it).
        test: Whose entropy is tested: that of each `token`, or the mean of its `turn`.
        bonus: Coefficient of the entropy bonus.
        smooth: Weight of the penalty relative to the bonus.
        over: Iterations over which the penalty's phase falls; by default the whole run, 150 in the authors'.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip]; dual clip 3.
        kl: Coefficient of the KL penalty (k3) to the reference; 0 loads no reference model.
        mini_batches: Optimiser steps per batch.
    """
    method = Method(
        rollout=Sample(n=n),
        advantage=Normalize(),
        shape=(TurnBand(low, high),),
        objective=(
            PolicyGradient(clip=Clip(clip, clip, dual=3.0)),
            Entropy(coefficient=bonus),
            BandPenalty(penalty, TwoPhases(over), kind, test, coefficient=bonus * smooth),
        ),
        updates=Updates(mini_batches=mini_batches, unit="rollout"),
        memories=(TurnEntropies(turns),),
    )
    return anchored(method, KL("k3", coefficient=kl))
