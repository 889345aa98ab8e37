"""SDPO: self-distillation policy optimisation."""

from __future__ import annotations

from podium.core.updates import Updates
from podium.method import Home, Method, Protocol, Role
from podium.methods.catalogue import recipe
from podium.parts.metric.report_mean import ReportMean
from podium.parts.objective import Distil
from podium.strategies import Sample

__all__ = ["sdpo"]


@recipe(
    summary="Self-distillation from success: a teacher that sees a right rollout of the group corrects the others.",
    citation="Hübotter et al. 2026, Reinforcement Learning via Self-Distillation, https://arxiv.org/abs/2601.20802",
    tags=("self-distillation", "distillation", "privileged information", "credit assignment", "teacher"),
    protocol=Protocol(
        model="Qwen/Qwen3-8B",
        lr=1e-6,
        weight_decay=0.01,
        warmup=0,
        schedule="constant",
        tasks=32,
        max_turns=1,
        source="lasgroup/SDPO, experiments/rich_feedback/run_sdpo.sh and verl/trainer/config/actor/actor.yaml",
    ),
    home=Home(level=2),
    presets={"paper": {"k": 20, "divergence": "reverse", "rate": 0.01, "mini_batches": 32}},
)
def sdpo(
    n: int = 8,
    k: int = 100,
    divergence: str = "js",
    rate: float = 0.05,
    cap: float | None = 2.0,
    mini_batches: int = 4,
) -> Method:
    """w_t · D(π(· | x, y_<t), q(· | x, a right answer, y_<t)), averaged over the tokens of the rollouts that have a
    right sibling: D is the Jensen-Shannon divergence over the student's k likeliest tokens and one bucket for all
    others, q a moving average of the policy whose prompt also holds the right answer of another rollout of the group,
    and w = sg[min(π / π_old, 2)].

    Every token gets a signal of its own: where the teacher, knowing how it can be done, would go on as the student did,
    there is none. A group without a right rollout, and the only right one of its group, teach nothing. The paper also
    shows the teacher what the environment said of a failed attempt, which no embedded world of one turn says.
    `sdpo@paper` is the authors' script for code; the numbers of plain `sdpo` are the defaults of their configuration.

    Args:
        n: Rollouts per task (the group size).
        k: Likeliest tokens of the student that are compared one by one.
        divergence: `js`, `forward` KL(q ‖ π) or `reverse` KL(π ‖ q).
        rate: Update rate of the teacher's moving average, per update.
        cap: Largest importance weight of a token; None: no weights.
        mini_batches: Optimiser steps per batch.
    """
    return Method(
        rollout=Sample(n=n),
        objective=(Distil(k, divergence=divergence, support="student", cap=cap, where="rollout.sibling"),),
        updates=Updates(mini_batches=mini_batches),
        metric=(ReportMean("rollout.sibling"),),
        roles=(Role("teacher", decay=1 - rate, context="turn.sibling.context"),),
    )
