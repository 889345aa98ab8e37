"""TP-GRPO: step-wise rewards of flows, and turning points that get what was gained from there to the end."""

from __future__ import annotations

from podium.method import Method
from podium.methods.catalogue import recipe
from podium.methods.networks._flows import DRAWING, SD35, flow_method
from podium.parts.advantage import Normalize
from podium.parts.reward import TurningPoints
from podium.strategies import DrawPictures

__all__ = ["tp_grpo"]


@recipe(
    summary="Flow-GRPO with a reward for each step; one that turns a picture round earns all that follows from it.",
    citation="Tong et al., TP-GRPO: Alleviating Sparse Rewards by Modeling Step-Wise and Long-Term Sampling Effects in "
    "Flow-Based GRPO, https://github.com/YunzeTong/TurningPoint-GRPO",
    tags=("flow matching", "image generation", "credit assignment", "process reward"),
    presets={
        "paper": {"clip": 1e-5},
        "unconstrained": {"consistent": False},
        "increments": {"turning": False},
    },
    protocol=SD35,
    home=DRAWING,
    extends="flow-grpo",
)
def tp_grpo(
    n: int = 24,
    turning: bool = True,
    consistent: bool = True,
    balance: bool = True,
    clip: float = 3e-4,
    kl: float = 1e-5,
    mini_batches: int = 2,
    epsilon: float = 1e-4,
    limit: float | None = 5.0,
) -> Method:
    """After every stochastic step a picture is finished deterministically and scored: R_t. A step earns d = R_t −
    R_{t−1}; a turning point, where the way to the end begins, earns R_n − R_{t−1}. A = (reward − mean) / (std + 1e-4)
    over the group at the same step, within ±5.

    `tp-grpo@increments` has no turning points, and one step would be GRPO on R_1 − R_0; `tp-grpo@unconstrained` is the
    paper's variant without the constraint on what follows. Clip range and KL are those of the release (1e-5, 1e-4) in
    the sense of `flow-grpo`: for 64 pixels, and exact. Ties among turning points that are kept are broken by index. The
    release also leaves out pictures without any credit, which have no gradient here either way.

    Args:
        n: Pictures per task (the group size).
        turning: Whether turning points get what was gained from there on.
        consistent: Whether what follows a turning point must go the same way.
        balance: Whether as many turning points are kept in pictures that gained as in pictures that lost.
        clip: Clip range of the ratio of a step.
        kl: Coefficient of the KL penalty to the reference; 0 loads no reference model.
        mini_batches: Optimiser steps per batch.
        epsilon: Added to the standard deviation.
        limit: Advantages are held within ± this; None: not at all.
    """
    return flow_method(
        clip,
        kl,
        mini_batches,
        rollout=DrawPictures(n, scored="finished"),
        reward=(TurningPoints(turning, consistent, balance),),
        advantage=Normalize(
            of="token.reward.step",
            key=("group", "token.place"),
            unbiased=False,
            epsilon=epsilon,
            limit=limit,
            singleton="zero",
        ),
    )
