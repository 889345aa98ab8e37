"""Skywork R1V2: hybrid reinforcement learning with a selective sample buffer."""

from __future__ import annotations

from podium.core.errors import PodiumError
from podium.core.schedule import Count, Follow
from podium.core.shares import ShareOfRun
from podium.core.term import Aggregate
from podium.core.updates import Updates
from podium.memories import Monitor, PassRates, PriorityReplay, RewardShift
from podium.method import Home, Method, Phases, Protocol, Role
from podium.methods._shared import anchored
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.annotate import MatchPatterns, ModelScores
from podium.parts.objective import KL, Clip, Likelihood, PolicyGradient, Preference, Quality
from podium.parts.reward import HybridReward
from podium.parts.select import MixedOutcomes
from podium.strategies import Sample

__all__ = ["skywork_r1v2"]

COMPARED = Preference(temperature=1.0, score="value", against=None, trains="rm")  # Bradley and Terry's loss


@recipe(
    summary="Mixed preference optimisation, then GRPO with a selective sample buffer (replay by advantage).",
    citation="Skywork R1V2: Multimodal Hybrid Reinforcement Learning for Reasoning, https://arxiv.org/abs/2504.16656",
    tags=("replay", "preference", "reward model", "multimodal", "zero-variance groups", "off-policy"),
    protocol=Protocol(model="Skywork-R1V2-38B", source="arXiv 2504.16656; the training code is not released"),
    home=Home("sums", level=2),
    presets={"stage-1": {"stage": 1}, "stage-2": {"stage": 2}, "reward-model": {"rm": "fit"}},
)
def skywork_r1v2(
    n: int = 8,
    stage: int = 0,
    first: Count = ShareOfRun(0.35),
    weights: tuple[float, float, float] = (0.8, 0.2, 1.0),
    beta: float = 0.1,
    rule: float = 1.0,
    format: float = 0.5,
    model: float = 0.5,
    layout: str = r"(?m)^answer:",
    score: str | None = None,
    rm: str = "",
    monitor: str | None = None,
    worse: str = "rises",
    step: float = 0.1,
    source: str | None = None,
    alpha: float = 1.0,
    max_age: int = 5,
    clip: float = 0.2,
    kl: float = 0.0,
    mini_batches: int = 4,
) -> Method:
    """Stage 1, on pairs of rollouts of a group with unequal rewards: 0.8 · (−log σ(D⁺ − D⁻)) + 0.2 · (−log σ(D⁺ − δ) −
    log σ(δ − D⁻)) + 1.0 · (−log π⁺ / |y⁺|), D = beta · (log π − log π_ref), δ a moving average of D. Stage 2: R = rule
    · correct + format · [the layout is there] + model · σ(score); GRPO; every rollout with an advantage is kept for
    `max_age` iterations, and as many as today's have none are drawn with p ∝ |A|^alpha.

    The paper's reward model is Skywork-VL Reward, a trained model of its own; `rm` names yours (`podium rewards fit`).
    `skywork-r1v2@reward-model` fits one in stage 1 to the same pairs, −log σ(s⁺ − s⁻): a copy of the policy with a
    value head. By default there is none, and the rule and the format are the reward.

    weights = (1, 0, 0) is DPO, (0, 0, 1) imitation of the right answers. The stages follow each other;
    `skywork-r1v2@stage-1` and `skywork-r1v2@stage-2` are one of them alone. With a `monitor`, a score counts as 1 above
    a threshold, else 0, and the threshold rises by `step` when the monitored number gets worse. The paper gives no age,
    no reward weights and no step, nor the length of the stages and the updates per batch, which are ours.

    Args:
        n: Rollouts per task (the group size).
        stage: 1 (preferences) or 2 (GRPO with replay) alone; 0: one after the other.
        first: Iterations of stage 1; by default about a third of the run.
        weights: Weights of the preference, quality and likelihood losses (stage 1).
        beta: Scale of the implicit reward D (stage 1).
        rule: Weight of correctness in the reward.
        format: Weight of the format in the reward.
        model: Weight of the reward model's score in the reward.
        layout: Pattern (regular expression) of the right format.
        score: Column of a reward model's scores; None: those of `rm`.
        rm: The reward model: `fit` (to the pairs of stage 1, where both stages are trained), the directory of one, or
            empty: none.
        monitor: A number of the run that tells of harm, such as `eval.pass@1` (the paper's: hallucination rate on
            held-out pictures); None: no threshold.
        worse: Direction in which that number gets worse: `rises` or `falls`.
        step: How much the threshold rises each time.
        source: Directory of an earlier run: only tasks with right and wrong answers there are sampled; None: all tasks.
        alpha: Exponent of |A| in the replay's priorities.
        max_age: Iterations that a rollout stays in the buffer.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
        kl: Coefficient of the KL penalty (k3) to the reference; 0 loads no reference model.
        mini_batches: Optimiser steps per batch.
    """
    if stage not in (0, 1, 2):
        raise PodiumError(f"skywork-r1v2: stage = {stage!r} is not 0, 1 or 2.")
    # A reward model is fitted from the policy's first weights, ten times as fast as the policy is trained.
    fitted = score is None and rm == "fit" and stage == 0
    named = score is None and rm not in ("", "fit") and stage != 1
    scorer = (Role("rm", lr_ratio=10.0),) if fitted else (Role("rm", source=rm),) if named else ()
    score = "rollout.scores" if scorer else score
    if monitor is not None and score is None:
        raise PodiumError(
            "skywork-r1v2: monitor moves the threshold of a reward model: name its column in score, or one in rm."
        )
    method = Method(rollout=Sample(n=n), updates=Updates(mini_batches=mini_batches))
    pair, quality, text = weights
    terms = (
        Preference(temperature=1 / beta, coefficient=pair),
        # A pair has two of them, so their sum is twice their mean.
        Quality(temperature=1 / beta, coefficient=2 * quality),
        Likelihood(where="rollout.correct", coefficient=text, aggregate=Aggregate("token mean, rollout mean")),
    )
    preferences = method.with_(
        name="preferences",
        objective=(*(term for term in terms if term.coefficient), *((COMPARED,) if fitted else ())),
        memories=(RewardShift(temperature=1 / beta),) if quality else (),
        roles=(Role("ref"), *(scorer if fitted else ())),
    )
    if stage == 1:
        return preferences
    hybrid = HybridReward(rule, format, model, score=score)
    watch = () if monitor is None else (Monitor(monitor, worse=worse, step=step),)
    if watch:
        hybrid = hybrid.replace(squash="threshold", threshold=Follow("monitor.level"))
    method = method.with_(
        name="replay",
        annotate=(MatchPatterns((("answered", layout),)), *((ModelScores(),) if scorer else ())),
        reward=(hybrid,),
        advantage=Normalize(),
        objective=(PolicyGradient(clip=Clip(clip, clip)),),
        memories=(PriorityReplay(alpha=alpha, max_age=max_age), *watch),
        roles=scorer,
    )
    if source is not None:
        method = method.with_(select=MixedOutcomes(), memories=(*method.memories, PassRates(source=source)))
    replaying = anchored(method, KL("k3", coefficient=kl))
    return Phases(preferences.until(first), replaying) if stage == 0 else replaying
