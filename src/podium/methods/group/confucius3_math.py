"""TODO"""

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
    summary="Hard tasks weigh more, entropy is held at a target, and surplus groups wait for the next batch.",
    citation="Confucius3-Math, https://github.com/netease-youdao/Confucius3-Math",
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
    all tokens; groups without signal are dropped and sampled for again, surplus groups train in the next batch with the
    log-probabilities they were sampled with. Stage 1 (4K): GRPO + coefficient · |H − target|, H the mean entropy.

    `Phases(get("confucius3-math@stage-1").until(300), get("confucius3-math"))` trains one stage after the other. With
    slope = 0 and offset = 1 the advantage is Dr. GRPO's on rewards of ±1.
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
