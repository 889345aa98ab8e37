"""GRPO with advantages that know how hard a task is for the policy of today."""

from __future__ import annotations

from podium.advantage import Normalize
from podium.core.errors import PodiumError
from podium.core.method import Method
from podium.keep import KeepMixed
from podium.methods.catalogue import recipe
from podium.objective import Aggregate, Clip, EntropyTarget, PolicyGradient
from podium.reward import Signed
from podium.rollout import Sample
from podium.shape import Hardness, LengthGate, ProgressFocus

__all__ = ["a_grae", "adora", "confucius3_math"]


@recipe(
    "a-grae",
    summary="Easy tasks first and hard ones as rewards rise; rewarded answers are damped while the policy is weak.",
    citation="A-GRAE: Unveiling Implicit Advantage Symmetry, https://github.com/Yu7-code/A-GRAE",
    family="group",
    presets={
        "geometry": {"alpha": 0.5},
        "dr-grpo": {"scale": "none"},
        "symmetric": {"easy": "sqrt(1 - p)"},
        "release": {"singleton": "raw"},
    },
)
def a_grae(
    n: int = 8,
    alpha: float = 1.0,
    easy: str = "1 - sqrt p",
    scale: str = "std",
    singleton: str = "zero",
    clip: float = 0.2,
    dual: float = 3.0,
) -> Method:
    """With p the mean reward of a group and P the mean of p over groups: A = GRPO's;
    A ← (1 − P) · A/(2(1 − √p + ε)) + P · A/(2(√p + ε)); A ← A · min(1, P/alpha) where A > 0.

    Rewards lie in [0, 1]. The released easy focus divides by 1 − √p; `a-grae@symmetric` by √(1 − p), which the paper's
    analysis suggests. The release takes 0 for the mean of a group of one, whose advantage becomes huge
    (`a-grae@release`); here it gets none. With `shape.ProgressFocus.focus=false` and alpha = 0 it is GRPO.
    """
    lonely = "zero" if singleton == "raw" else "mean"
    return Method(
        "a-grae",
        rollout=Sample(n=n),
        advantage=Normalize(scale=scale, singleton=singleton),
        shape=(ProgressFocus(alpha=alpha, easy=easy, singleton=lonely),),
        objective=(PolicyGradient(clip=Clip(clip, clip, dual=dual)),),
    )


ADORA = {
    "llm": {"without_correct": "damp", "without_wrong": "pass"},
    "vlm": {"without_correct": "pass", "without_wrong": "damp"},
}


@recipe(
    "adora",
    summary="A group whose longest right answer is no longer than its average wrong one hardly counts.",
    citation="ADORA, https://github.com/ShadeCloak/ADORA",
    family="group",
    presets={"vlm": {"variant": "vlm", "max_length": 4094}, "logic-rl": {"correct_above": 1.01}},
)
def adora(
    n: int = 8, variant: str = "llm", damp: float = 0.1, correct_above: float = 0.5, max_length: int = 3900
) -> Method:
    """GRPO's advantage × 1 if the longest correct rollout is longer than the mean of the wrong ones (those shorter than
    `max_length`), else × damp.

    The forks differ where one side is missing: `llm` damps groups without correct rollouts, `vlm` those without wrong
    ones. The release calls a reward above 1.01 correct, since its rewards reach 3: `adora@logic-rl`. damp = 1 is GRPO.
    """
    if variant not in ADORA:
        raise PodiumError(f"adora: variant = {variant!r} is not one of {', '.join(ADORA)}.")
    gate = LengthGate(damp=damp, correct_above=correct_above, max_length=max_length, **ADORA[variant])
    return Method(
        "adora",
        rollout=Sample(n=n),
        advantage=Normalize(),
        shape=(gate,),
        objective=(PolicyGradient(clip=Clip(0.2, 0.2)),),
    )


@recipe(
    "confucius3-math",
    summary="Hard tasks weigh more, entropy is held at a target, and surplus groups wait for the next batch.",
    citation="Confucius3-Math, https://github.com/netease-youdao/Confucius3-Math",
    family="group",
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
    method = Method("confucius3-math", rollout=Sample(n=n), reward=(Signed(),), advantage=Normalize())
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
