"""Nous: questions that are worth the entropy that their answers remove."""

from __future__ import annotations

from podium.core.updates import Updates
from podium.method import Home, Method, Protocol
from podium.methods._shared import anchored
from podium.methods.catalogue import recipe
from podium.parts.advantage import Mixture, MixtureComponent
from podium.parts.metric.report_mean import ReportMean
from podium.parts.objective import KL, Clip, PolicyGradient
from podium.parts.reward import BeliefGain
from podium.protocols.format import Format
from podium.strategies import Draw, Sample

__all__ = ["nous"]


@recipe(
    summary="Clarifying questions rewarded by the entropy that their answers remove from a belief over the task.",
    citation="Dialogue as Discovery: Navigating Human Intent Through Principled Inquiry, arXiv:2510.27410",
    tags=("information gain", "clarifying questions", "dialogue", "turn-level", "agents", "multi-turn"),
    presets={"counted": {"unit": "resolved"}, "questions": {"outcome": 0.0}, "paper": {"outcome": 0.0}},
    protocol=Protocol(source="arXiv:2510.27410, abstracts of both versions; no numbers of the run were found"),
    home=Home("clarify", level=2, dials={"compound": True}, iterations=10, tasks=16, model="podium/tiny2"),
)
def nous(
    n: int = 8,
    gain: float = 1.0,
    outcome: float = 1.0,
    unit: str = "share",
    ask: str = "ask for several at once",
    clip: float = 0.2,
    kl: float = 0.001,
    epsilon: float = 1e-6,
    mini_batches: int = 4,
) -> Method:
    """A question earns r = (H_before − H_after) / H_0, the entropy that its answer removes from a belief over the
    attributes of the task, which are taken as independent and ruled out by hard constraints. Questions at the same
    state of a dialogue are compared, A = (r − mean) / (std + 1e-6); later turns do not count. The outcome is compared
    over the group and added.

    gain = 0 is GRPO. The authors compare candidate questions at stored states and train on these alone
    (`nous@questions`); here the states are those that the rollouts of a task share, and the answer is trained as well,
    by its outcome. `nous@counted` counts attributes that are settled, their ablation. Attributes with many values are
    asked for first, however unimportant. We have read abstracts, reviews and summaries, not the paper's formulas.

    Args:
        n: Rollouts per task (the group size).
        gain: Weight of the comparison of questions.
        outcome: Weight of the comparison of outcomes.
        unit: What a question earns: a `share` of the entropy at the start, `bits`, or attributes `resolved`.
        ask: The line below the task that asks for compound questions.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
        kl: Coefficient of the KL penalty (k3) to the reference; 0 loads no reference model.
        epsilon: Added to the standard deviation.
        mini_batches: Optimiser steps per batch.
    """
    state = ("group", "step.state")
    asked = MixtureComponent(
        of="step.reward.gain", key=state, share=gain, where="step.asking", singleton="zero", epsilon=epsilon
    )
    solved = MixtureComponent(of="rollout.reward", rows="rollout", share=outcome, singleton="zero", epsilon=epsilon)
    method = Method(
        rollout=Sample(n=n, draw=Draw(format=Format(ask=ask))),
        reward=(BeliefGain(unit),),
        advantage=Mixture((asked, solved)),
        objective=(PolicyGradient(clip=Clip(clip, clip)),),
        updates=Updates(mini_batches=mini_batches),
        metric=(ReportMean("rollout.questions"), ReportMean("rollout.uncertainty")),
    )
    return anchored(method, KL("k3", coefficient=kl))
