"""Flow-GRPO (AgentFlow): in-the-flow optimisation of a planner."""

from __future__ import annotations

from podium.core.schedule import Count
from podium.core.shares import ShareOfTokens
from podium.core.term import Aggregate
from podium.method import Home, Method
from podium.methods._shared import ADAMW
from podium.methods.catalogue import recipe
from podium.methods.turns._shared import step_credit
from podium.parts.advantage import MixtureComponent
from podium.parts.reward import VerdictReward
from podium.parts.shape import DropLongContexts
from podium.protocols.context import Rebuild
from podium.strategies import Draw, JudgedRollouts, Sample, judge_named

__all__ = ["agentflow"]


@recipe(
    summary="Flow-GRPO: broadcasts the outcome to every planner turn, each trained on its memory-based prompt.",
    citation="In-the-Flow Agentic System Optimization, https://github.com/lupantech/AgentFlow",
    tags=("agents", "tool use", "multi-turn", "planning", "context management"),
    presets={
        "release": {},
        "judge": {"judge": "podium/tiny2"},
        "paper": {"rows": "rollout", "aggregate": "token mean, turn mean, rollout mean", "longest": 18_432},
    },
    protocol=ADAMW.replace(
        model="Qwen2.5-7B-Instruct",
        lr=1e-6,
        tasks=32,
        max_tokens=2048,
        max_turns=3,
        pool=182_190,
        source="AgentFlow train/config.yaml; optimiser of verl 0.5.0 by default",
    ),
    home=Home("keydoor", level=1, iterations=8, tasks=8),
)
def agentflow(
    n: int = 8,
    rows: str = "step",
    aggregate: str = "token mean",
    longest: Count = ShareOfTokens(9.0),
    kl: float = 0.001,
    temperature: float = 0.7,
    mini_batches: int = 4,
    judge: str = "",
    way: str = "options",
) -> Method:
    """A = (R − mean) / (std + 1e-6) over the rows of the task, on every turn of the rollout; clip [0.8, 1.3].

    With rollouts of one turn it is GRPO. The release counts each turn as a row and averages over tokens;
    `agentflow@paper` counts each rollout once and averages over tokens, turns, rollouts. The world plays the executor.
    With `judge` a model decides whether a rollout has succeeded, as the authors' does: R = 1 where its score exceeds a
    half, else 0, also where its verdict cannot be read. Without one the world does.
    The release takes one optimiser step per 64 planner turns: 4 to 12 for its 256 rollouts of one to three turns.

    Args:
        n: Rollouts per task (the group size).
        rows: What counts once in the group's statistics: each `step` (turn) or each `rollout`.
        aggregate: How the losses of tokens become one number, as the path of an `Aggregate`.
        longest: Turns with a longer context than this many tokens are dropped after the comparison; by default nine
            times the limit of a turn, as 18,432 is of 2,048.
        kl: Coefficient of the KL penalty (k3) to the reference; 0 loads no reference model.
        temperature: Sampling temperature.
        mini_batches: Optimiser steps per batch.
        judge: Who decides on the outcome: `policy`, a model or a run's folder, or the address of a server on this
            machine; empty: the world.
        way: How a model judges: by the probabilities of `options`, or by a `written` verdict.
    """
    comparison = MixtureComponent(of="rollout.reward", rows=rows)
    method = step_credit(n, comparison, high=0.3, kl=kl, mini_batches=mini_batches)
    sample = Sample(n=n, draw=Draw(temperature=temperature, context=Rebuild()))
    if judge:
        asked, roles = judge_named(judge, way)
        method = method.with_(
            rollout=JudgedRollouts(sample, asked), reward=(VerdictReward(),), roles=(*method.roles, *roles)
        )
    else:
        method = method.with_(rollout=sample)
    for term in ("PolicyGradient", *(("KL",) if kl else ())):
        method = method.set(f"objective.{term}.aggregate", Aggregate(aggregate))
    return method | DropLongContexts(longest)
