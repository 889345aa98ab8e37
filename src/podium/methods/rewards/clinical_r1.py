"""Clinical-R1: clinical objective relative policy optimisation (CRPO)."""

from __future__ import annotations

from podium.core.schedule import Count
from podium.core.shares import ShareOfRun
from podium.core.updates import Updates
from podium.method import Home, Method, Protocol, Role
from podium.methods._shared import ADAMW
from podium.methods._taught import taught
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.metric.report_mean import ReportMean
from podium.parts.objective import KL, Clip, PolicyGradient
from podium.parts.reward import ChoiceLayout, ColumnBonus
from podium.protocols.tagged import ChoiceTags
from podium.strategies import Draw, Sample

__all__ = ["clinical_r1"]

CHECKED = ("rollout.faithful", "rollout.complete")


@recipe(
    summary="Clinical reasoning by rule-checked rewards: the right option, a layout, faithful and complete.",
    citation="Clinical-R1: Clinical Objective Relative Policy Optimization, https://github.com/BoyangGu1/Clinical-R1-3B",
    tags=("medicine", "multi-objective", "format", "reward shaping", "multiple choice"),
    protocol=Protocol(
        model="Qwen2.5-3B",
        lr=1e-6,
        tasks=1024,
        max_tokens=4096,
        betas=ADAMW.betas,
        weight_decay=ADAMW.weight_decay,
        source="BoyangGu1/Clinical-R1-3B, training script and medical_rule_based.py: 20 epochs on MedQA",
    ),
    home=Home("cases", level=1, iterations=10, model="podium/tiny2"),
    presets={
        "release": {"faithful": None, "complete": None},
        "paper": {"mini_batches": 64, "imitate": 0, "faithful": None, "complete": None},
    },
)
def clinical_r1(
    n: int = 5,
    accuracy: float = 10.0,
    layout: float = 1.0,
    english: float = 0.5,
    faithful: float | None = 1.0,
    complete: float | None = 1.0,
    imitate: Count = ShareOfRun(0.2),
    clip: float = 0.2,
    kl: float = 0.001,
    epsilon: float = 1e-6,
    mini_batches: int = 4,
) -> Method:
    """R = accuracy · a + layout · f + english · e + faithful · t + complete · c through unchanged GRPO. a: the boxed
    letter, 1 if right, 0 if wrong, −½ or −1 if malformed, −m with m ≠ 1 boxes; f: 1 for `<think>…</think>
    <answer>…</answer>` and ½ more for a summary beside the box; e: the share of English characters.

    The released code has the first three terms and no others, though the paper names three objectives, accuracy,
    faithfulness and comprehensiveness: there those are judged afterwards by language models and encouraged by the
    layout alone (`clinical-r1@release`). The terms t and c are ours: the share of the statements in the reasoning that
    hold, and of those needed that are made, as the world checks them by rule (`cases`). faithful = complete = layout =
    english = 0 is GRPO on accuracy. The terms are not normalised one by one.

    It begins with imitation of the world's solutions in the layout, for the authors' cold start on distilled traces;
    each is seen once, which teaches the layout and leaves the reasoning to the rewards.

    Args:
        n: Rollouts per task (the group size).
        accuracy: Weight of the boxed letter.
        layout: Weight of the layout.
        english: Weight of the share of English characters.
        faithful: Weight of the share of statements that hold; 0: it is only reported; None: not read, as released.
        complete: Weight of the share of needed statements that are made; 0: reported; None: not read, as released.
        imitate: Iterations that imitate the world's solutions in this layout, before everything else; 0: none.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
        kl: Coefficient of the KL penalty (k3) to the policy after the imitation; 0 loads no reference model.
        epsilon: Added to the standard deviation.
        mini_batches: Optimiser steps per batch.
    """
    draw = Draw(format=ChoiceTags())
    checked = {c: weight for c, weight in zip(CHECKED, (faithful, complete), strict=True) if weight is not None}
    method = Method(
        rollout=Sample(n=n, draw=draw),
        reward=(
            ChoiceLayout(accuracy, layout, english),
            *(ColumnBonus(column, weight) for column, weight in checked.items()),
        ),
        advantage=Normalize(epsilon=epsilon),
        objective=(PolicyGradient(clip=Clip(clip, clip)),),
        updates=Updates(mini_batches=mini_batches),
        metric=tuple(map(ReportMean, checked)),
    )
    if kl:
        reference = Role("ref", source="phase") if imitate != 0 else Role("ref")
        method = method | KL("k3", coefficient=kl) | reference
    return taught(method, imitate, draw, updates=Updates(mini_batches=8))
