"""One-shot RLVR: reinforcement learning with one training example."""

from __future__ import annotations

from podium.core.errors import PodiumError
from podium.core.updates import Updates
from podium.memories import PassRates
from podium.method import Home, Method
from podium.methods._shared import ADAMW, anchored
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.annotate import MatchPatterns
from podium.parts.metric.report_mean import ReportMean
from podium.parts.objective import KL, Clip, Entropy, PolicyGradient
from podium.parts.select import Ranked
from podium.strategies import Draw, Sample

__all__ = ["one_shot_rlvr"]


SCORES = {"variance": "group.pass_rate.spread", "lim": "group.pass_rate.alignment", "random": "group.random"}


@recipe(
    summary="GRPO on one example copied to fill the batch, the task whose accuracy varied most in an earlier run.",
    citation="Wang et al. 2025, RL for Reasoning with One Training Example, https://arxiv.org/abs/2504.20571",
    tags=("data selection", "entropy", "efficiency", "math"),
    protocol=ADAMW.replace(
        model="Qwen2.5-Math-1.5B",
        lr=1e-6,
        tasks=128,
        iterations=2000,
        max_tokens=3072,
        source="ypwang61/One-Shot-RLVR scripts/train/training_1.5b_pi1_r128.sh",
    ),
    home=Home("sums", level=2),
    presets={
        "paper": {"words": "(?i)rethink|recheck|recalculate"},
        "entropy-only": {"policy": False, "kl": 0.0},
        "lim": {"score": "lim"},
    },
)
def one_shot_rlvr(
    n: int = 8,
    shots: int = 1,
    source: str | None = None,
    score: str = "variance",
    policy: bool = True,
    kl: float = 0.001,
    entropy: float = 0.001,
    temperature: float = 0.6,
    clip: float = 0.2,
    words: str = "",
    mini_batches: int = 1,
) -> Method:
    """Tasks are ranked by the standard deviation of their accuracy over the visits that the run `source` has logged
    (`lim`: by how closely it follows the average curve); the first `shots` are copied to fill the batch, every copy a
    group of its own. GRPO + kl · k3 − entropy · H, each term on or off: `one-shot-rlvr@entropy-only` has no reward.

    With as many shots as tasks it is GRPO with an entropy bonus. `podium.analysis.saturation.post_saturation` measures
    what held-out accuracy gains after the training task is solved. A batch is trained in one step, at which the
    importance ratio is 1 and nothing can be clipped.

    Args:
        n: Rollouts per task (the group size).
        shots: Tasks that are trained on.
        source: Directory of an earlier run; None: the ranking uses this run's own visits, and begins with the first
            task.
        score: Ranking: `variance`, `lim` or `random`.
        policy: Whether the policy-gradient loss is on.
        kl: Coefficient of the KL penalty (k3) to the reference; 0 loads no reference model.
        entropy: Coefficient of the entropy bonus.
        temperature: Sampling temperature.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip], where there are several mini-batches.
        words: Pattern (regular expression) of words of reflection, whose share of answers is reported, as
            in the paper; empty: none.
        mini_batches: Optimiser steps per batch.
    """
    if score not in SCORES:
        raise PodiumError(f"one-shot-rlvr: score = {score!r} is not one of {', '.join(SCORES)}.")
    method = Method(
        select=Ranked(by=SCORES[score], shots=shots),
        rollout=Sample(n=n, draw=Draw(temperature=temperature)),
        annotate=(MatchPatterns((("reflection", words),)),) if words else (),
        advantage=Normalize(),
        objective=(
            *((PolicyGradient(clip=Clip(clip, clip) if mini_batches > 1 else None),) if policy else ()),
            *((Entropy(coefficient=entropy),) if entropy else ()),
        ),
        updates=Updates(mini_batches=mini_batches),
        metric=(ReportMean("rollout.reflection"),) if words else (),
        memories=(PassRates(source=source),),
    )
    return anchored(method, KL("k3", coefficient=kl))
