"""TODO"""

from __future__ import annotations

from podium.core.schedule import TwoPhases
from podium.memories import TurnEntropies
from podium.method import Method
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.objective import BandPenalty, Clip, Entropy, PolicyGradient
from podium.parts.shape import TurnBand
from podium.strategies import Sample

__all__ = ["epo"]


@recipe(
    summary="An entropy bonus with a price on tokens whose entropy leaves a band around that turn's own history.",
    citation="Entropy-regularized Policy Optimization for LLM Agents, https://github.com/WujiangXu/EPO",
    presets={"hinge": {"kind": "hinge"}, "alfworld": {"penalty": 0.1}, "config": {"low": 0.8, "high": 1.2}},
)
def epo(
    n: int = 8,
    turns: int = 30,
    low: float = 0.0,
    high: float = 2.0,
    penalty: float = 0.05,
    kind: str = "step",
    test: str = "token",
    bonus: float = 0.001,
    smooth: float = 1.0,
    over: int = 150,
    clip: float = 0.2,
) -> Method:
    """loss = L_pg − bonus · (mean H − smooth · mean P), with P = penalty · phase where the entropy of a token at turn k
    is outside (low · H̄_k, high · H̄_k): H̄_k is the mean over iterations of the entropy at turn k, and the phase falls
    from 1 over `over` iterations. P acts once a rollout of the batch gets to the second half of the `turns`.

    P is constant around every policy: as published and released it moves the reported loss and not the policy.
    `epo@hinge` prices the distance to the band instead, whose gradient leads back. penalty = 0 is GRPO with an entropy
    bonus. The README's runs, taken here, have the band (0, 2); the configuration's default is `epo@config`.
    """
    return Method(
        rollout=Sample(n=n),
        advantage=Normalize(),
        shape=(TurnBand(low, high),),
        objective=(
            PolicyGradient(clip=Clip(clip, clip)),
            Entropy(coefficient=bonus),
            BandPenalty(penalty, TwoPhases(over), kind, test, coefficient=bonus * smooth),
        ),
        memories=(TurnEntropies(turns),),
    )
