"""GRAO: group relative alignment optimisation."""

from __future__ import annotations

from podium.core.term import Aggregate
from podium.method import Home, Method, Protocol
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.metric.report_mean import ReportMean
from podium.parts.metric.wins import ReferenceWins
from podium.parts.objective import PolicyGradient
from podium.parts.shape import Contrast
from podium.strategies import Draw, Sample

__all__ = ["grao"]


@recipe(
    summary="Unifies SFT and RL: rollouts and the reference answer share one advantage scale, plus a contrast term.",
    citation="Learning to Align, Aligning to Learn (GRAO), https://arxiv.org/abs/2508.07750",
    tags=("imitation", "sft", "demonstrations", "group-relative"),
    protocol=Protocol(
        model="Qwen2.5-7B",
        lr=1e-6,
        weight_decay=0.01,
        tasks=64,
        max_tokens=2048,
        max_turns=1,
        source="arXiv 2508.07750, experimental configuration",
    ),
    home=Home("sums", level=2),
    presets={"one-group": {"reference_in_statistics": True}},
)
def grao(
    n: int = 8,
    beta: float = 0.5,
    lam: float = 0.6,
    epsilon: float = 1e-8,
    reference_in_statistics: bool = False,
    temperature: float = 0.7,
    style: str = "short",
    traces: str = "",
) -> Method:
    """J = (1/n) Σ A_i J_i + beta · A_y J_y + lam · (1/n) Σ A_i (J_i − J_y), with J the mean log-likelihood of an answer
    and A = (R − mean) / std over the rollouts (population std), for the reference answer y too. No importance ratio,
    clip or KL penalty.

    beta = lam = 0 is on-policy GRPO with a sequence mean. Over the rollouts alone Σ A_i = 0, so the last part is lam
    times the first; with `reference_in_statistics` it contributes in its own right. Where all rewards are equal they
    are not divided. `wins` in the metrics is the share of rollouts that beat the reference answer (RAS).

    Args:
        n: Rollouts per task (the group size).
        beta: Weight of imitating the reference answer.
        lam: Weight of the likelihood gap between rollouts and the reference answer.
        epsilon: Added to the std.
        reference_in_statistics: Let the reference answer enter the group's mean and std.
        temperature: Sampling temperature.
        style: Which of the world's solutions to take, by its style (`short`, …).
        traces: A file of demonstrations by task, in place of the world's solutions; empty: none.
    """
    by_answer = Aggregate("token mean, rollout mean, group mean")
    summed = Aggregate("token mean, rollout sum, group mean")
    demonstrate_as = "train" if reference_in_statistics else "demo"
    sample = Sample(
        n=n,
        demonstrations=() if traces else (style,),
        demonstrate_as=demonstrate_as,
        draw=Draw(temperature=temperature),
        traces=traces,
    )
    return Method(
        rollout=sample,
        advantage=Normalize(unbiased=False, epsilon=epsilon, zero_scale="skip"),
        shape=(Contrast(),),
        objective=(
            PolicyGradient(ratio="none", where="rollout.sampled", aggregate=by_answer),
            PolicyGradient(ratio="none", where="rollout.demonstration", coefficient=beta, aggregate=by_answer),
            PolicyGradient(ratio="none", advantage="advantage.contrast", coefficient=lam, aggregate=summed),
        ),
        metric=(ReportMean("rollout.advantage", where="rollout.demonstration"), ReferenceWins()),
    )
