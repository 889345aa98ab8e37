"""TODO"""

from __future__ import annotations

from podium.memories import SolvedTexts, Sweeps
from podium.method import Method
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
    summary="Each task is searched as a tree of chunks; what the search found a chunk to be worth is its score.",
    citation="DeepSearch: Monte Carlo Tree Search inside RLVR training, https://github.com/smiles724/DeepSearch",
    presets={"uncertain": {"uncertainty": 0.4}, "rounds": {"pool": 256}},
)
def deepsearch(
    n: int = 8,
    width: int = 8,
    max_depth: int = 64,
    c: float = 2.0,
    uncertainty: float = 0.0,
    budget: int | None = None,
    round_length: int = 100,
    rare: float = 0.25,
    pool: int | None = None,
    rounds: int = 3,
    max_length: int = 16384,
    buffer: int = 4096,
    scale: str = "none",
    clip_low: float = 0.2,
    clip_high: float = 0.28,
    dual: float = 10.0,
) -> Method:
    """Monte Carlo tree search until n ends are recorded: verdicts ±1 are backed up with the weight (depth + 1)/T, never
    below a positive node. A = score − mean of the group's final scores, the score of a chunk tanh of its value and of
    the last one its verdict, plus the reward for length. DAPO's clip, token mean, no KL.

    width = n with max_depth = 1 is Dr. GRPO's advantage with rewards ±1. Right answers to tasks that a round of
    `round_length` iterations solved at a rate in (0, `rare`] are reused in the next one instead of a search. With a
    `pool` of tasks (`deepsearch@rounds`) four samples measure each before it is trained, and before the next round
    those still in: a round has the tasks of rates up to `rare`, measured by the policy of the time where the paper
    takes its best checkpoint. Without one all tasks are trained. `scale="std"` divides by the std, which the release
    has switched off. A rollout that is alone keeps its score as advantage. Inner chunks differ from the last one, so a
    group of equal verdicts is trained too.
    """
    search = Search(n=n, width=width, max_depth=max_depth, c=c, uncertainty=uncertainty, budget=budget)
    return Method(
        select=StillHard(rare, pool) if pool else None,
        rollout=search,
        reward=(Overlong(max_length=max_length, buffer=buffer), SearchScore()),
        keep=(DropMeasuring(),) if pool else (),
        advantage=FinalBaseline(scale=scale),
        objective=(PolicyGradient(clip=Clip(clip_low, clip_high, dual=dual)),),
        metric=(ReportMean("node.worth"), ReportMean("rollout.fork"), ReportMean("rollout.replayed")),
        memories=(SolvedTexts(round_length, rare), *((Sweeps((round_length,) * rounds),) if pool else ())),
    )
