"""Turn control: turn budgets for efficient agents."""

from __future__ import annotations

from podium.core.errors import PodiumError
from podium.core.schedule import Follow
from podium.core.updates import Updates
from podium.memories import TurnCounts
from podium.method import Home, Method
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.metric import TurnCost
from podium.parts.metric.report_mean import ReportMean
from podium.parts.objective import Clip, PolicyGradient
from podium.strategies import BudgetedTurns

__all__ = ["turn_control"]


@recipe(
    summary="Turn budget for efficient agents: a percentile of past episode lengths, extended on demand.",
    citation="More with Less: An Empirical Study of Turn-Control Strategies for Efficient Coding Agents",
    tags=("agents", "efficiency", "rollout budget", "multi-turn", "code"),
    presets={"fixed": {"start": 75}},
    home=Home("keydoor", level=1, iterations=8, tasks=8),
)
def turn_control(n: int = 8, start: int = 50, cap: int = 75, step: int = 10, clip: float = 0.2) -> Method:
    """The limit starts at the percentile `start` of the turns that the rollouts of the last iterations took, and is
    extended by `step` turns while needed, at most to the percentile `cap`. Every observation says how many turns are
    left. A rollout that is cut off is `truncated`, so that other parts can treat it. Otherwise GRPO.

    `turn-control@fixed` has no extensions. Before the end of the first iteration there is no limit, as in GRPO. The
    cost counts the context that each turn sends again. The study has no training: its budgets are applied to rollouts
    here.

    Args:
        n: Rollouts per task (the group size).
        start: Percentile of past turn counts at which the limit starts: 25, 50 or 75.
        cap: Percentile up to which it may be extended: 25, 50 or 75.
        step: Turns per extension.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
    """
    for name, q in (("start", start), ("cap", cap)):
        if q not in (25, 50, 75):
            raise PodiumError(f"turn-control: {name} = {q!r} is not 25, 50 or 75.")
    first, last = (Follow(f"turns.p{q}") for q in (start, cap))
    return Method(
        rollout=BudgetedTurns(n=n, start=first, cap=last, step=step),
        advantage=Normalize(),
        objective=(PolicyGradient(clip=Clip(clip, clip)),),
        updates=Updates(mini_batches=4),
        metric=(TurnCost(), ReportMean("rollout.extensions")),
        memories=(TurnCounts(),),
    )
