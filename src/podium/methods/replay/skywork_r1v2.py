"""TODO"""

from __future__ import annotations

from podium.core.errors import PodiumError
from podium.core.schedule import Follow
from podium.core.term import Aggregate
from podium.memories import Monitor, PassRates, PriorityReplay, RewardShift
from podium.method import Method, Role
from podium.methods._shared import anchored
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.annotate import MatchPatterns
from podium.parts.objective import KL, Clip, Likelihood, PolicyGradient, Preference, Quality
from podium.parts.reward import HybridReward
from podium.parts.select import MixedOutcomes
from podium.strategies import Sample

__all__ = ["skywork_r1v2"]


@recipe(
    summary="Preferences, then GRPO on mixed rewards with stored rollouts in place of those without an advantage.",
    citation="Skywork R1V2: Multimodal Hybrid Reinforcement Learning for Reasoning, https://arxiv.org/abs/2504.16656",
    presets={"stage-1": {"stage": 1}},
)
def skywork_r1v2(
    n: int = 8,
    stage: int = 2,
    weights: tuple[float, float, float] = (0.8, 0.2, 1.0),
    beta: float = 0.1,
    rule: float = 1.0,
    format: float = 0.5,
    model: float = 0.5,
    layout: str = r"(?m)^answer:",
    score: str | None = None,
    monitor: str | None = None,
    worse: str = "rises",
    step: float = 0.1,
    source: str | None = None,
    alpha: float = 1.0,
    max_age: int = 5,
    clip: float = 0.2,
    kl: float = 0.0,
) -> Method:
    """Stage 1, on pairs of rollouts of a group with unequal rewards: 0.8 · (−log σ(D⁺ − D⁻)) + 0.2 · (−log σ(D⁺ − δ) −
    log σ(δ − D⁻)) + 1.0 · (−log π⁺ / |y⁺|), D = beta · (log π − log π_ref), δ a moving average of D.
    Stage 2: R = rule · correct + format · [the layout is there] + model · σ(score); GRPO; every rollout with an
    advantage is kept for `max_age` iterations, and as many as today's have none are drawn with p ∝ |A|^alpha.

    `Phases(get("skywork-r1v2@stage-1").until(100), get("skywork-r1v2"))` trains one after the other. `score` names the
    column of a reward model's scores, where there is one. `monitor` names a number of the run that tells of harm (the
    paper's is the rate of hallucination on held-out pictures; `eval.pass@1` with worse = "falls" on other worlds): then
    a score counts as 1 above a threshold, else 0, and the threshold rises by `step` when that number gets worse. With
    `source`, the directory of an earlier run, only tasks with right and wrong answers there are sampled. The paper
    gives no age, no weights of the rewards and no step. weights = (1, 0, 0) is DPO, (0, 0, 1) imitation of the right
    answers.
    """
    if stage not in (1, 2):
        raise PodiumError(f"skywork-r1v2: stage = {stage!r} is not 1 or 2.")
    if monitor is not None and score is None:
        raise PodiumError("skywork-r1v2: monitor moves the threshold of a reward model: name its column in score.")
    method = Method(rollout=Sample(n=n))
    if stage == 1:
        pair, quality, text = weights
        terms = (
            Preference(temperature=1 / beta, coefficient=pair),
            # A pair has two of them, so their sum is twice their mean.
            Quality(temperature=1 / beta, coefficient=2 * quality),
            Likelihood(where="rollout.correct", coefficient=text, aggregate=Aggregate("token mean, rollout mean")),
        )
        kept = tuple(term for term in terms if term.coefficient)
        return method.with_(
            objective=kept, memories=(RewardShift(temperature=1 / beta),) if quality else (), roles=(Role("ref"),)
        )
    hybrid = HybridReward(rule, format, model, score=score)
    watch = () if monitor is None else (Monitor(monitor, worse=worse, step=step),)
    if watch:
        hybrid = hybrid.replace(squash="threshold", threshold=Follow("monitor.level"))
    method = method.with_(
        annotate=(MatchPatterns((("answered", layout),)),),
        reward=(hybrid,),
        advantage=Normalize(),
        objective=(PolicyGradient(clip=Clip(clip, clip)),),
        memories=(PriorityReplay(alpha=alpha, max_age=max_age), *watch),
    )
    if source is not None:
        method = method.with_(select=MixedOutcomes(), memories=(*method.memories, PassRates(source=source)))
    return anchored(method, KL("k3", coefficient=kl))
