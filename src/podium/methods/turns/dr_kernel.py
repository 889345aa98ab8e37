"""TRLOO (Dr. Kernel): turn-level leave-one-out for multi-turn kernel generation."""

from __future__ import annotations

from podium.core.term import Aggregate
from podium.core.updates import Updates
from podium.method import Home, Method
from podium.methods._shared import ADAMW, clip_for
from podium.methods.catalogue import recipe
from podium.parts.advantage import Mixture, MixtureComponent
from podium.parts.objective import PolicyGradient
from podium.parts.reward import Speedup
from podium.parts.shape import RejectLazy, RejectMismatch
from podium.strategies import Sample

__all__ = ["dr_kernel"]


@recipe(
    summary="Turn-level leave-one-out returns for multi-turn kernel generation; rewards profiled speed, rejects hacks.",
    citation="Dr. Kernel: Reinforcement Learning Done Right for Triton, https://github.com/hkust-nlp/KernelGYM",
    extends="rloo",
    tags=("multi-turn", "code", "baseline", "turn-level", "reward shaping", "importance sampling"),
    protocol=ADAMW.replace(
        model="Qwen3-14B-Base after a cold start",
        lr=1e-6,
        tasks=16,
        max_tokens=8192,
        max_turns=3,
        source="KernelGYM drkernel/kernel/scripts/rl/14b_trloo_mrs_pr_prs.sh",
    ),
    home=Home("tools", level=2, dials={"profile": True}, iterations=8, tasks=8),
)
def dr_kernel(
    n: int = 16,
    gamma: float = 1.0,
    profiled: bool = True,
    mismatch: float | None = 1e-3,
    mini_batches: int = 1,
) -> Method:
    """A_t = G_t − mean of G_t over the other rollouts of the task that have a turn t (TRLOO); a turn that no other
    rollout has keeps G_t. No std.

    A batch is one optimiser step, as in the release, at which a clip cannot act; with several, the ratio is clipped to
    [0.8, 1.28]. On rollouts of one turn it is RLOO.
    The embedded world `code` with `turns=3` and `profile=True` runs and profiles programs in Python in place of
    kernels: coverage is the share of the time that a program spends in code of its own, not in functions that Python
    brings along. `tools` with `profile=True` does the like with calls. With a profiler the reward is 0.5 correct + 0.5
    min(speedup, 3) + 0.5 coverage, and a correct turn of low coverage (a lazy kernel) is rejected at random; rollouts
    whose sampler and trainer disagree too much are rejected too.

    Args:
        n: Rollouts per task (the group size).
        gamma: Discount factor per turn.
        profiled: Take rewards from a profiler's columns; False: the world's turn rewards.
        mismatch: Largest discrepancy between the sampler's and the trainer's probabilities; None: no rejection.
        mini_batches: Optimiser steps per batch.
    """
    comparison = MixtureComponent(gamma=gamma, key=("group", "step.index"), centre="leave_one_out", scale="none")
    method = Method(
        rollout=Sample(n=n),
        reward=(Speedup(),) if profiled else (),
        advantage=Mixture((comparison,)),
        shape=(RejectLazy(),) if profiled else (),
        objective=(
            PolicyGradient(
                clip=clip_for(mini_batches, 0.2, 0.28), aggregate=Aggregate("token sum / 1000, rollout mean")
            ),
        ),
        updates=Updates(mini_batches=mini_batches),
    )
    return method if mismatch is None else method | RejectMismatch(mismatch)
