"""InfoPO: information-driven policy optimisation for user-centric agents."""

from __future__ import annotations

from podium.core.schedule import Exponential, Number
from podium.core.updates import Updates
from podium.method import Home, Method, Protocol
from podium.methods.catalogue import recipe
from podium.parts.advantage import GatedGain
from podium.parts.annotate import FeedbackGain
from podium.parts.objective import Clip, Entropy, PolicyGradient
from podium.strategies import Draw, Sample

__all__ = ["infopo"]


@recipe(
    summary="Intrinsic information-gain reward for feedback that changes the next action, gated by outcome variance.",
    citation="Information-Driven Policy Optimization for User-Centric Agents, https://github.com/kfq20/InfoPO",
    tags=("information gain", "turn-level", "agents", "multi-turn", "zero-variance groups"),
    presets={
        "raw": {"gains": "raw"},
        "intrinsic": {"outcome": False},
        "paper": {"n": 5},
        "tau2": {"n": 5, "weight": 0.1, "tau": 0.05, "mini_batches": 2},
        "colbench": {"n": 5, "weight": 0.3, "tau": 0.5, "temperature": 0.6},
    },
    protocol=Protocol(
        model="Qwen3-4B",
        lr=3e-7,
        weight_decay=0.01,
        warmup=0,
        schedule="constant",
        clip=1.0,
        tasks=64,
        max_tokens=1024,
        max_turns=16,
        source="InfoPO examples/sglang_multiturn/train.sh (mixed gyms)",
    ),
    home=Home("clarify", level=1, iterations=8, tasks=8),
)
def infopo(
    n: int = 8,
    weight: float = 0.5,
    decay: float = 0.0,
    tau: float = 0.5,
    cap: float = 1.0,
    gains: str = "normalized",
    outcome: bool = True,
    clip: float = 0.2,
    entropy: float = 0.001,
    temperature: float = 1.0,
    mini_batches: int = 4,
) -> Method:
    """A = A_out + weight · e^{−decay · iteration} · g · m · A_int: the z-score of the outcome and the z-score of the
    gains, per token; the gate g = sigmoid(−std/tau) has the std of the group's outcomes, and m holds the intrinsic part
    to the outcome's size. The gain of a turn is the mean of log π(next action | feedback) − log π(next action |
    placeholder).

    weight = 0 is GRPO with an entropy bonus. `infopo@raw` does not normalise the gains, `infopo@intrinsic` trains on
    them alone. Weight and gate are those of the main run; `infopo@tau2` and `infopo@colbench` have those of the other
    two.

    Args:
        n: Rollouts per task (the group size).
        weight: Weight of the intrinsic advantage.
        decay: Exponential decay of that weight per iteration.
        tau: Temperature of the gate, in units of the outcomes' std.
        cap: The intrinsic advantage is scaled down where its std exceeds both this and the outcome's.
        gains: `normalized` or `raw`.
        outcome: Whether the outcome counts; False: the gains alone.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
        entropy: Coefficient of the entropy bonus.
        temperature: Sampling temperature.
        mini_batches: Optimiser steps per batch.
    """
    gradient = PolicyGradient(clip=Clip(clip, clip))
    beta: Number = Exponential(weight, decay) if decay else weight
    return Method(
        rollout=Sample(n=n, draw=Draw(temperature=temperature)),
        annotate=(FeedbackGain(),),
        advantage=GatedGain(beta, tau, cap, gains, outcome),
        objective=(gradient, Entropy(coefficient=entropy)) if entropy else (gradient,),
        updates=Updates(mini_batches=mini_batches),
    )
