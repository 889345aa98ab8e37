"""Confucius3-Math: hardness-weighted advantages and targeted entropy regularisation."""

from __future__ import annotations

from podium.core.errors import PodiumError
from podium.core.term import Aggregate
from podium.method import Method
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.keep import KeepMixed
from podium.parts.objective import Clip, EntropyTarget, PolicyGradient
from podium.parts.reward import SignedReward
from podium.parts.shape import Hardness
from podium.strategies import Sample

__all__ = ["confucius3_math"]


@recipe(
    summary="Weights advantages by difficulty, holds entropy at a target, and carries surplus groups over.",
    citation="Confucius3-Math, https://github.com/netease-youdao/Confucius3-Math",
    tags=("difficulty", "entropy", "dynamic sampling", "math", "replay"),
    presets={"stage-1": {"stage": 1}},
)
def confucius3_math(
    n: int = 16,
    stage: int = 2,
    slope: float = -0.256,
    offset: float = 1.256,
    target: float = 0.55,
    coefficient: float = 0.001,
    clip_low: float = 0.2,
    clip_high: float = 0.28,
) -> Method:
    """Stage 2 (contexts of 8K and 16K): rewards ±1, A = (r − mean) · (offset + slope · mean), DAPO's clip, the sum over
    all tokens; groups without signal are dropped and resampled, and surplus groups train in the next batch with the
    log-probabilities they were sampled with. Stage 1 (4K): GRPO + coefficient · |H − target|, H the mean entropy.

    With slope = 0 and offset = 1 the advantage is Dr. GRPO's on rewards of ±1.
    `Phases(get("confucius3-math@stage-1").until(300), get("confucius3-math"))` trains one stage after the other.

    Args:
        n: Rollouts per task (the group size).
        stage: Stage of the training recipe, 1 or 2.
        slope: Change of the advantage's weight with the group's mean reward (stage 2).
        offset: Weight at a mean reward of 0 (stage 2).
        target: Target entropy in nats (stage 1).
        coefficient: Weight of the entropy's distance to its target (stage 1).
        clip_low: Lower end of the importance ratio's clip range, 1 − clip_low; in stage 1 both ends.
        clip_high: Upper end of the importance ratio's clip range, 1 + clip_high (stage 2).
    """
    if stage not in (1, 2):
        raise PodiumError(f"confucius3-math: stage = {stage!r} is not 1 or 2.")
    method = Method(rollout=Sample(n=n), reward=(SignedReward(),), advantage=Normalize())
    if stage == 1:
        pull = EntropyTarget(target, distance="abs", coefficient=coefficient)
        sequence = Aggregate("token mean, rollout mean")
        return method.with_(objective=(PolicyGradient(clip=Clip(clip_low, clip_low), aggregate=sequence), pull))
    return method.with_(
        keep=(KeepMixed(carry_over=True),),
        advantage=Normalize(scale="none", singleton="zero"),
        shape=(Hardness(slope, offset),),
        objective=(PolicyGradient(clip=Clip(clip_low, clip_high), aggregate=Aggregate("token sum")),),
    )
