"""DeepSearch: Monte Carlo tree search inside RLVR training."""

from __future__ import annotations

from podium.core.schedule import Count
from podium.core.shares import ShareOfRun, ShareOfTokens
from podium.core.updates import Updates
from podium.memories import SolvedTexts, Sweeps
from podium.method import Home, Method, Protocol
from podium.methods.catalogue import recipe
from podium.parts.advantage import FinalBaseline
from podium.parts.keep import DropMeasuring
from podium.parts.metric.report_mean import ReportMean
from podium.parts.objective import Clip, PolicyGradient
from podium.parts.reward import Overlong, SearchScore
from podium.parts.select import StillHard
from podium.strategies import Search

__all__ = ["deepsearch"]


@recipe(
    summary="MCTS rollouts with global frontier selection; backed-up node values give chunk-level credit.",
    citation="DeepSearch: Monte Carlo Tree Search inside RLVR training, https://github.com/smiles724/DeepSearch",
    tags=("tree search", "search", "credit assignment", "exploration", "replay", "difficulty"),
    protocol=Protocol(
        model="Nemotron-Research-Reasoning-Qwen-1.5B",
        lr=1e-6,
        betas=(0.9, 0.999),
        weight_decay=0.1,
        warmup=10,
        schedule="constant",
        clip=1.0,
        tasks=256,
        iterations=200,
        max_tokens=16384,
        source="smiles724/DeepSearch round0.sh, round1.sh",
    ),
    home=Home("sums", level=2, tasks=12, pool=24, max_tokens=56),
    presets={
        "paper": {"round_length": 100, "max_length": 16384, "buffer": 4096},
        "uncertain": {"uncertainty": 0.4},
        "all-tasks": {"rounds": 0},
    },
)
def deepsearch(
    n: int = 8,
    width: int = 8,
    max_depth: int = 64,
    c: float = 2.0,
    uncertainty: float = 0.0,
    budget: int | None = None,
    round_length: Count = ShareOfRun(0.25),
    rare: float = 0.25,
    pool: int | None = None,
    rounds: int = 2,
    max_length: Count = ShareOfTokens(1.0),
    buffer: Count = ShareOfTokens(0.25),
    scale: str = "none",
    clip_low: float = 0.2,
    clip_high: float = 0.28,
    dual: float = 10.0,
    mini_batches: int = 8,
) -> Method:
    """Monte Carlo tree search until n ends are recorded: verdicts ±1 are backed up with the weight (depth + 1)/T, never
    below a positive node. A = score − mean of the group's final scores, where the score of a chunk is tanh of its value
    and that of the last one its verdict, plus the length reward. DAPO's clip, token mean, no KL penalty.

    width = n with max_depth = 1 is Dr. GRPO's advantage with rewards ±1. Right answers to tasks that a round of
    `round_length` iterations solved at a rate in (0, `rare`] are reused in the next one instead of a search. Before the
    first round four samples measure each task, and before the next one those still in: a round has the tasks of rates
    up to `rare`, measured by the current policy where the paper takes its best checkpoint. `deepsearch@all-tasks`
    trains all tasks. Two rounds of 100 iterations are released. A rollout without others keeps its score as advantage.
    Inner chunks differ from the last one, so a group of equal verdicts is trained too.

    Args:
        n: Finished answers per task.
        width: Children of a node.
        max_depth: Chunks of a whole answer.
        c: Exploration constant of the upper-confidence rule.
        uncertainty: Weight of a node's uncertainty in the frontier score; 0.4 where it is switched on.
        budget: Tokens per task at most; None: no limit.
        round_length: Iterations of a round, without those that measure; by default a quarter of the run.
        rare: Success rate up to which a task counts as hard.
        pool: Tasks measured before the first round; None: all of the run.
        rounds: Rounds of hard tasks, the last of which does not end; 0: all tasks are trained.
        max_length: Length limit of an answer in tokens, where the overlong penalty is full; by default `max_tokens`.
        buffer: Tokens before the limit over which the penalty grows from 0; by default a quarter of `max_tokens`.
        scale: `std` divides the advantage by the std (switched off in the release), `none` does not.
        clip_low: Lower end of the importance ratio's clip range, 1 − clip_low.
        clip_high: Upper end of the importance ratio's clip range, 1 + clip_high.
        dual: Dual clip: where the advantage is negative, the loss is at most dual · |A|.
        mini_batches: Optimiser steps per batch.
    """
    search = Search(n=n, width=width, max_depth=max_depth, c=c, uncertainty=uncertainty, budget=budget)
    return Method(
        select=StillHard(rare, pool) if rounds else None,
        rollout=search,
        reward=(Overlong(max_length=max_length, buffer=buffer), SearchScore()),
        keep=(DropMeasuring(),) if rounds else (),
        advantage=FinalBaseline(scale=scale),
        objective=(PolicyGradient(clip=Clip(clip_low, clip_high, dual=dual)),),
        updates=Updates(mini_batches=mini_batches),
        metric=(ReportMean("node.worth"), ReportMean("rollout.fork"), ReportMean("rollout.replayed")),
        memories=(SolvedTexts(round_length, rare), *((Sweeps((round_length,) * rounds),) if rounds else ())),
    )
