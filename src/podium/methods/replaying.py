"""Training once more on rollouts of earlier iterations."""

from __future__ import annotations

from podium.advantage import Normalize
from podium.core.errors import PodiumError
from podium.core.method import Method, Role
from podium.core.schedule import Cosine, Follow
from podium.keep import DropMarked, KeepVaried, PriorityReplay, SuccessReplay
from podium.methods.catalogue import recipe
from podium.methods.group import anchored
from podium.objective import KL, Aggregate, Apart, Clip, Likelihood, PolicyGradient, Preference, Quality, RewardShift
from podium.reward import CallBonus, HybridReward, MarkDegenerate, Marked, Monitor
from podium.rollout import Sample
from podium.select import Mixed, PassRates
from podium.shape import DropCovariant

__all__ = ["skywork_r1v2", "spear"]


@recipe(
    "spear",
    summary="A fading bonus for tool calls; successes are trained again once enough of them still are successes.",
    citation="SPEAR: Self-imitation with Progressive Exploration, https://github.com/TencentYoutuResearch/SPEAR",
    family="turns",
    presets={"scripts": {"count": 32, "baselines": 32}, "alfworld": {"replay_over": 100}},
)
def spear(
    n: int = 8,
    count: int = 2048,
    max_age: int = 5,
    baselines: int = 10240,
    tool_over: int = 200,
    replay_over: int = 300,
    replay: float = 1.0,
    tool: float = 1.0,
    groups: float = 0.75,
    calls: str = "turn.calls",
    max_length: int = 4096,
    clip_low: float = 0.2,
    clip_high: float = 0.28,
) -> Method:
    """R = outcome + mu(t) · min(0.1 · turns with a call, 1); A = R − group mean. Rollouts with A > 0 and a call are
    kept with their log-probabilities; once more than 1.5 · count of them beat the median of the recent group means,
    2^k ≤ count of those are trained after the batch with A = R − median, their loss times gamma(t), and the buffer is
    emptied. mu falls along a cosine over `tool_over` iterations, gamma rises over `replay_over`. Clip-Cov drops 2 % of
    the tokens of high covariance; degenerate answers are not trained; the 75 % of groups with the most varied rewards
    are.

    `calls` names the column that says which turns call a tool. The readme's horizons are 100 and 200 iterations; the
    maths script's sizes are `spear@scripts`. replay = tool = 0 is Dr. GRPO with Clip-Cov and these filters.
    """
    bounds = Clip(clip_low, clip_high)
    weight = Cosine(0.0, replay, over=replay_over)
    buffer = SuccessReplay(size=4 * count, count=count, max_age=max_age, baselines=baselines, where="rollout.called")
    return Method(
        "spear",
        rollout=Sample(n=n),
        reward=(CallBonus(Cosine(tool, 0.0, over=tool_over), calls=calls), MarkDegenerate()),
        keep=(KeepVaried(groups), DropMarked()),
        advantage=Normalize(scale="none"),
        shape=(DropCovariant(0.02, low=1.0, high=40.0, clip=bounds),),
        objective=(PolicyGradient(clip=bounds, aggregate=Aggregate(f"token sum / {max_length}, rollout mean")),),
        updates=Apart(by="group.fresh"),
        memories=(buffer.replace(weight=weight),),
    )


@recipe(
    "skywork-r1v2",
    summary="Preferences, then GRPO on mixed rewards with stored rollouts in place of those without an advantage.",
    citation="Skywork R1V2: Multimodal Hybrid Reinforcement Learning for Reasoning, https://arxiv.org/abs/2504.16656",
    family="hybrid",
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
    method = Method("skywork-r1v2", rollout=Sample(n=n))
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
        reward=(Marked((("answered", layout),)), hybrid),
        advantage=Normalize(),
        objective=(PolicyGradient(clip=Clip(clip, clip)),),
        memories=(PriorityReplay(alpha=alpha, max_age=max_age), *watch),
    )
    if source is not None:
        method = method.with_(select=Mixed(), memories=(*method.memories, PassRates(source=source)))
    return anchored(method, KL("k3", coefficient=kl))
