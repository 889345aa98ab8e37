"""MAPO: mixed advantage policy optimisation for multi-turn dialogue."""

from __future__ import annotations

from podium.core.errors import PodiumError
from podium.method import Home, Method, Protocol
from podium.methods.catalogue import recipe
from podium.methods.turns._shared import step_credit
from podium.parts.advantage import MixtureComponent
from podium.strategies import JudgedTurns, judge_named
from podium.strategies.requests import PairJudge

__all__ = ["mapo"]


@recipe(
    summary="Mixes turn-wise Monte-Carlo returns with batch-normalised immediate rewards, without a critic.",
    citation="Mixed Advantage Policy Optimization for Long-Horizon Multi-Turn Dialogue, "
    "https://github.com/2200xiaohu/MAPO",
    tags=("multi-turn", "turn-level", "credit assignment", "advantage estimation"),
    presets={
        "paper": {"n": 4},
        "script": {"n": 4, "alpha": 0.4, "beta": 0.6},
        "judge": {"judge": "podium/tiny2"},
    },
    protocol=Protocol(
        model="Qwen2.5-7B-Instruct",
        lr=1e-6,
        weight_decay=0.1,
        warmup=0.05,
        schedule="cosine",
        clip=1.0,
        tasks=16,
        iterations=90,
        max_turns=15,
        pool=727,
        source="MAPO test_reinforce_pp_v5.sh; iterations derived from two epochs over 727 scripts",
    ),
    home=Home("keydoor", level=1, dials={"turn_rewards": 1.0, "invalid_penalty": 0.1}, iterations=8, tasks=8),
)
def mapo(
    n: int = 8,
    gamma: float = 0.85,
    alpha: float = 0.5,
    beta: float = 0.5,
    immediate: str = "batch",
    kl: float = 0.0,
    mini_batches: int = 2,
    judge: str = "",
    way: str = "options",
) -> Method:
    """A = alpha · z(returns; task, turn number) + beta · z(rewards; all turns of the batch), population std + 1e-8.

    Clip 0.2 / 0.28 with dual clip 10, no KL penalty. The reward of a turn is how much nearer it comes to the goal: the
    fall of a judged distance in the paper, and with `judge`; `turn_rewards` of the embedded worlds without one. alpha =
    1, beta = 0 on single turns is GRPO with the population std. A turn that only one rollout reaches has no first part.
    The weights of the shipped script, one of an ablation, are `mapo@script`.

    Args:
        n: Rollouts per task (the group size).
        gamma: Discount factor per turn.
        alpha: Weight of the returns, compared at the same turn number of the task.
        beta: Weight of the immediate rewards.
        immediate: Where immediate rewards are compared: in the `batch`, or in the `group` as a later version of the
            paper does.
        kl: Coefficient of the KL penalty (k3) to the reference; 0 loads no reference model.
        mini_batches: Optimiser steps per batch.
        judge: Who rates the conversation after every turn: `policy`, a model or a run's folder, or the address of a
            server on this machine; empty: nobody, the world rewards its turns.
        way: How a model judges: by the probabilities of `options`, or by a `written` verdict.
    """
    if immediate not in ("batch", "group"):
        raise PodiumError(f"mapo: immediate = {immediate!r} is not one of batch, group.")
    population = MixtureComponent(unbiased=False, epsilon=1e-8, singleton="zero")
    turn = population.replace(gamma=gamma, key=("group", "step.index"), share=alpha)
    now = population.replace(key=() if immediate == "batch" else ("group",), share=beta)
    method = step_credit(n, turn, now, high=0.28, dual=10.0, kl=kl, mini_batches=mini_batches)
    if not judge:
        return method
    if judge == "world":
        raise PodiumError("mapo: judge = 'world': leave judge out, and the world rewards its turns itself.")
    asked, roles = judge_named(judge, way)
    assert isinstance(asked, PairJudge)
    return method.with_(rollout=JudgedTurns(n=n, judge=asked), roles=(*method.roles, *roles))
