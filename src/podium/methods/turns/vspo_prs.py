"""VSPO and PRS: value-based sampling and progressive reward shaping."""

from __future__ import annotations

from podium.core.errors import PodiumError
from podium.core.term import Aggregate
from podium.core.updates import Updates
from podium.method import Home, Method, Protocol, Role
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.annotate import MarkParsed, MatchPatterns
from podium.parts.objective import KL, Clip, PolicyGradient
from podium.parts.reward import AnswerBleu, ProgressiveReward
from podium.parts.shape import ReplaceFlat, SmoothCopies
from podium.strategies import Sample

__all__ = ["vspo_prs"]


@recipe(
    summary="Progressive reward shaping; zero-variance groups are replaced by copies of high-value ones.",
    citation="Progressive Reward Shaping and Value-based Sampling Policy Optimization",
    tags=("reward shaping", "zero-variance groups", "data selection", "tool use", "agents"),
    presets={"unsmoothed": {"smoothing": 0.0}, "verdict": {"quality": "reward"}, "paper": {}},
    protocol=Protocol(
        model="Qwen2.5-7B-Instruct",
        lr=1e-6,
        source="a third-party summary; no code was found",
    ),
    home=Home("clarify", level=1, iterations=8, tasks=8),
)
def vspo_prs(
    n: int = 5,
    parsed: str | None = None,
    formatted: str = "(?m)^answer:",
    quality: str = "bleu",
    stages: bool = True,
    smoothing: float = 0.5,
    kl: float = 0.001,
    mini_batches: int = 4,
) -> Method:
    """r = 0 where a turn could not be parsed, 0.1 where there is no answer in the required format, else 0.2 + 0.8 · q,
    with q the length-aware BLEU between the answer and the reference answer. The place of a zero-variance group goes to
    a copy of one drawn by V = (1 − mean) · std; each of c copies counts c^−smoothing.

    Whether a turn parses is the world's judgement, or with `parsed` whether a pattern is found in the whole text. For
    long answers the paper has a judge's score as q: `vspo-prs@verdict` takes the world's reward. Without zero-variance
    groups and stages it is GRPO. A copy is implemented as a weight of its group, which is exact
    since the loss is a mean over rollouts of token means.

    Args:
        n: Rollouts per task (the group size).
        parsed: Pattern (regular expression) of a text that parses; None: the world could act on every turn and found
            an answer.
        formatted: Pattern of the required format, where there is a pattern `parsed`.
        quality: What the last stage pays: `bleu` of short answers, or the world's `reward`.
        stages: Pay rewards in stages; False: the world's reward.
        smoothing: Exponent that damps copies: 0 none, 1 a task weighs the same however often it is copied.
        kl: Coefficient of the KL penalty (k3) to the reference; 0 loads no reference model.
        mini_batches: Optimiser steps per batch; an assumption.
    """
    aggregate = Aggregate("token mean, rollout mean")
    if quality not in ("bleu", "reward"):
        raise PodiumError(f"vspo-prs: quality = {quality!r} is not one of bleu, reward.")
    patterns = MatchPatterns((("parsed", parsed or "."), ("formatted", formatted)))
    marks = MarkParsed() if parsed is None else patterns
    scored = (AnswerBleu(),) if quality == "bleu" else ()
    method = Method(
        rollout=Sample(n=n),
        annotate=(marks,) if stages else (),
        reward=(*scored, ProgressiveReward()) if stages else (),
        advantage=Normalize(singleton="zero"),
        shape=(ReplaceFlat(), SmoothCopies(smoothing)),
        objective=(PolicyGradient(clip=Clip(0.2, 0.2), aggregate=aggregate),),
        updates=Updates(mini_batches=mini_batches),
    )
    return method if kl == 0 else method | KL("k3", coefficient=kl, aggregate=aggregate) | Role("ref")
