"""GRPO with another trust region: bounds that stretch, a target instead of a clip, whole answers weighed by length."""

from __future__ import annotations

from podium.advantage import Normalize
from podium.core.errors import PodiumError
from podium.core.method import Method
from podium.methods.catalogue import recipe
from podium.objective import Aggregate, Clip, PolicyGradient, Target
from podium.rollout import Sample
from podium.shape import Beside, ElasticClip

__all__ = ["bpo", "etr", "luspo"]


@recipe(
    "luspo",
    summary="GSPO times the length of each answer, so that a token's push does not depend on how long its answer is.",
    citation="Length-Unbiased Sequence Policy Optimization (LUSPO); as in https://github.com/huggingface/trl",
    family="objective",
    presets={"normalized": {"normalized": True}},
)
def luspo(n: int = 8, clip_low: float = 2e-3, clip_high: float = 2.5e-3, normalized: bool = False) -> Method:
    """s_i = exp(mean over tokens of log π − log π_old); loss = (1/B) Σ_i n_i · (−min(s_i A_i, clip(s_i) A_i)) over all
    B rollouts, empty ones included; GRPO's advantage, no KL. A token's gradient is −A_i s_i / B, whatever n_i is.

    The loss grows with the length of the answers; `normalized=True` divides it by their mean length, which is the
    token mean. With answers of one length L it is L times GSPO. With token ratios it would be another method.
    """
    path = "token mean" if normalized else "token sum, rollout mean of all"
    surrogate = PolicyGradient(ratio="sequence", clip=Clip(clip_low, clip_high), aggregate=Aggregate(path))
    return Method("luspo", rollout=Sample(n=n), advantage=Normalize(), objective=(surrogate,))


@recipe(
    "bpo",
    summary="Instead of a clip, regress the ratio to the best one within a hard bound: what overshoots is pulled back.",
    citation="Bounded Ratio Reinforcement Learning, https://github.com/bounded-ratio-rl/brrl",
    family="objective",
    presets={"median": {"threshold": "median"}},
)
def bpo(n: int = 8, eps: float = 0.2, width: float = 1e-4, floor: float = 0.0, threshold: str = "mean") -> Method:
    """(|A| + floor) · |r − r*|, r* = 1 + eps · tanh(Ã / (2·width)) as a constant; token mean, no KL. A is GRPO's
    advantage; Ã is A itself, or with `threshold="median"` the reward minus the group's median, not normalised.

    On-policy the gradient is that of PPO and REINFORCE, −A. width → 0 is the target 1 ± eps by the sign of Ã, width → ∞
    no update. With the median and binary rewards the commoner outcome has Ã = 0: its rollouts are held where they are.
    """
    if threshold not in ("mean", "median"):
        raise PodiumError(f"bpo: threshold = {threshold!r} is not 'mean' or 'median'.")
    median = threshold == "median"
    target = Target(eps, eps, width=width, floor=floor, side="advantage.median" if median else "advantage")
    beside = Beside(Normalize(centre="median", scale="none", singleton="zero"), "median")
    return Method(
        "bpo",
        rollout=Sample(n=n),
        advantage=Normalize(singleton="zero"),
        shape=(beside,) if median else (),
        objective=(PolicyGradient(clip=target),),
    )


@recipe(
    "etr",
    summary="Clip bounds that stretch for large advantages and for tasks of middling difficulty.",
    citation="ETR: Outcome-Guided Elastic Trust Regions for Policy Optimization",
    family="objective",
)
def etr(
    n: int = 8, clip: float = 0.2, clip_high: float | None = None, micro: float = 0.5, macro: float = 0.5
) -> Method:
    """scale_i = clip(1 + micro · (tanh|A_i| − tanh 1) + macro · (4 p (1 − p) − ½), ½, 2), p the group's pass rate;
    GRPO with the clip bounds of rollout i times scale_i, as constants.

    The rule is ours, made from the paper's abstract: the range grows with the advantage and with the variance of the
    group's outcomes. micro = macro = 0 is GRPO without KL.
    """
    stretch = ElasticClip(clip, clip if clip_high is None else clip_high, micro=micro, macro=macro)
    bounds = Clip("rollout.clip_low", "rollout.clip_high")
    return Method(
        "etr",
        rollout=Sample(n=n),
        advantage=Normalize(),
        shape=(stretch,),
        objective=(PolicyGradient(clip=bounds, aggregate=Aggregate("token mean, rollout mean")),),
    )
