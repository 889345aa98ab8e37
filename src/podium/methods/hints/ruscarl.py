"""RuscaRL: rubric-scaffolded reinforcement learning."""

from __future__ import annotations

from podium.core.errors import PodiumError
from podium.core.schedule import Count, Power, Schedule, Sigmoid
from podium.core.shares import ShareOfRun
from podium.core.updates import Updates
from podium.method import Home, Method
from podium.methods._shared import ADAMW, anchored
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.metric.report_mean import ReportMean
from podium.parts.objective import KL, Clip, PolicyGradient
from podium.parts.reward import Rubric
from podium.strategies import Draw, RubricShown, criteria_judge

__all__ = ["ruscarl"]


@recipe(
    summary="Rubric scaffolding: rollouts see a decaying share of the rubric that rewards them; trained without it.",
    citation="Zhou et al. 2025, RuscaRL: Rubric-Scaffolded RL, https://arxiv.org/abs/2508.16949",
    tags=("rubric", "hints", "curriculum", "exploration", "off-policy"),
    protocol=ADAMW.replace(
        model="Qwen2.5-7B-Instruct",
        lr=1e-6,
        tasks=64,
        iterations=350,
        max_tokens=4096,
        pool=4500,
        source="IANNXANG/RuscaRL RuscaRL_example/Qwen2.5-7B-Instruct/healthbench_RuscaRL.sh",
    ),
    home=Home("sums", level=2),
    presets={"paper": {"steps": 350}, "judge": {"judge": "podium/tiny2"}},
)
def ruscarl(
    n: int = 8,
    steps: Count = ShareOfRun(1.0),
    midpoint: float = 0.2,
    steepness: float = 125.0,
    fade: str = "sigmoid",
    power: float = 1.0,
    full: int | None = None,
    scaffold: str = "removed",
    epsilon: float = 1e-6,
    clip: float = 0.2,
    dual: float | None = 3.0,
    kl: float = 0.001,
    temperature: float = 0.7,
    top_p: float = 0.8,
    top_k: int = 20,
    mini_batches: int = 2,
    judge: str = "",
    way: str = "options",
) -> Method:
    """Member i = 0 … n − 1 of a group sees a random share (n − 1 − i)/(n − 1) · s(t) of the criteria, s(t) = 1/(1 +
    e^{steepness (x − midpoint)}), x the share of `steps` that is over; training sees the bare question. R = Σ points of
    the criteria met / Σ positive points; GRPO's advantage; clip 0.2; k3 with 0.001.

    s = 0 is GRPO with rubric rewards. `rollout.note` adds a note below the criteria: the authors forbid mentioning
    them, an instruction that podium/tiny does not understand. The midpoint and the steepness, nearly a switch, are
    those of the authors' script; their code's own are 0.3 and 10.

    Args:
        n: Rollouts per task (the group size).
        steps: Iterations over which the scaffold fades.
        midpoint: Share of `steps` at which half of the scaffold is left (`sigmoid`).
        steepness: Steepness of that fall (`sigmoid`).
        fade: Form of s: `sigmoid`, `linear` (1 − x), `power` ((1 − x)^power) or `none` (1).
        power: Exponent of `power`.
        full: This many members see the share s(t) and the others nothing; None: shares fall over the group.
        scaffold: The prompt that rollouts are trained under: criteria `removed` or `kept`.
        epsilon: Added to the standard deviation.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
        dual: Dual clip: where the advantage is negative, the loss is at most dual · |A|; None: no dual clip.
        kl: Coefficient of the KL penalty (k3) to the reference; 0 loads no reference model.
        temperature: Sampling temperature.
        top_p: Nucleus sampling: the probability mass that is sampled from.
        top_k: Sample from this many likeliest tokens.
        mini_batches: Optimiser steps per batch.
        judge: Who decides which criteria are met: `policy`, a model or a run's folder, or the address of a server on
            this machine; empty: the world.
        way: How a model judges: by the probabilities of `options`, or by a `written` verdict.
    """
    asked, roles = criteria_judge(judge, way)
    strategy = RubricShown(
        n=n,
        fade=_fade(fade, steps, midpoint, steepness, power),
        binary=full,
        scaffold=scaffold,
        draw=Draw(temperature=temperature, top_p=top_p, top_k=top_k),
        judge=asked,
    )
    method = Method(
        rollout=strategy,
        reward=(Rubric(),),
        advantage=Normalize(epsilon=epsilon),
        objective=(PolicyGradient(clip=Clip(clip, clip, dual=dual)),),
        updates=Updates(mini_batches=mini_batches),
        metric=(ReportMean("rollout.guided"), ReportMean("rollout.perfect")),
        roles=roles,
    )
    return anchored(method, KL("k3", coefficient=kl))


def _fade(rule: str, steps: Count, midpoint: float, steepness: float, power: float) -> float | Schedule:
    """From everything at the first step to nothing at the last; a single step shows everything."""
    whole = isinstance(steps, int)
    over = max(steps - 1, 1) if whole else steps
    rules: dict[str, float | Schedule] = {
        "sigmoid": Sigmoid(1.0, over, midpoint, steepness),
        "linear": Power(1.0, over),
        "power": Power(1.0, over, power),
        "none": 1.0,
    }
    if rule not in rules:
        raise PodiumError(f"ruscarl: fade = {rule!r} is not one of {', '.join(rules)}.")
    return 1.0 if whole and steps <= 1 else rules[rule]
