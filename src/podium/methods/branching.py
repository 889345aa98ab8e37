"""Many turns: which episodes are played, from where, and for how long."""

from __future__ import annotations

from podium.advantage import Normalize
from podium.core.errors import PodiumError
from podium.core.method import Method, Role
from podium.core.schedule import Follow
from podium.core.watch import Watch
from podium.keep import KeepPivots
from podium.methods.catalogue import recipe
from podium.objective import KL, Clip, PolicyGradient
from podium.reward import ToolUse
from podium.rollout import Branching, BudgetedTurns, NextTurn, TurnCost, TurnCounts
from podium.shape import SharedNodes

__all__ = ["arpo", "pivotrl", "turn_control"]


@recipe(
    "arpo",
    summary="Episodes fork after tool calls, more often where the policy became unsure, within one budget.",
    citation="Agentic Reinforced Policy Optimization, https://github.com/dongguanting/ARPO",
    family="turns",
    presets={"hard": {"attribution": "hard"}},
)
def arpo(
    n: int = 16,
    initial: int = 8,
    weight: float = 0.2,
    chance: float = 0.5,
    attribution: str = "soft",
    tools: bool = False,
    bonus: float = 0.1,
    malformed: float = -1.0,
    clip: float = 0.2,
) -> Method:
    """`initial` rollouts of `n`; after a turn each forks with the chance 0.5 + 0.2 · (H − H_0), H the entropy of the
    turn's first 20 tokens, until there are n. GRPO's advantage on all tokens (soft), or the mean of the branches on
    the turns that they share (hard). PPO's clip without KL.

    weight = chance = 0 with initial = n is GRPO. For on-policy data soft and hard have the same gradient. The release
    keeps H_0 from batch to batch by row number; here each rollout has its own. It takes entropies over the ten
    likeliest tokens, here they are whole. Forks are decided when a rollout has ended, in the order of its turns. With
    `tools` the reward is the score of the answer, + bonus if all tools were used, −1 where the format is wrong.
    """
    if attribution not in ("soft", "hard"):
        raise PodiumError(f"arpo: attribution = {attribution!r} is not 'soft' or 'hard'.")
    return Method(
        "arpo",
        rollout=Branching(n=n, initial=initial, weight=weight, chance=chance),
        reward=(ToolUse(bonus, malformed),) if tools else (),
        advantage=Normalize(),
        shape=(SharedNodes(),) if attribution == "hard" else (),
        objective=(PolicyGradient(clip=Clip(clip, clip)),),
        evaluate=(Watch("rollout.forked"),),
    )


@recipe(
    "pivotrl",
    summary="One turn at a time from inside demonstrations, at the turns where actions differ and most of them fail.",
    citation="PivotRL: High Accuracy Agentic Post-Training at Low Compute Cost",
    family="turns",
)
def pivotrl(
    n: int = 8, below: float = 0.75, style: str = "short", clip: float = 0.2, kl: float = 0.01, max_rounds: int = 10
) -> Method:
    """A turn of a solution is sampled n times after the turns before it; the reward is whether it leads where the
    expert's turn does; turns with variance > 0 and mean < below are trained by GRPO with a KL to the start.

    The paper profiles all turns once with the frozen start policy; here each is profiled by the samples it would be
    trained on, as in later reports that profile again while they train. below > 1 is DAPO's filter. The threshold and
    the KL's coefficient are assumptions.
    """
    return Method(
        "pivotrl",
        rollout=NextTurn(n=n, style=style),
        keep=(KeepPivots(below=below, max_rounds=max_rounds),),
        advantage=Normalize(),
        objective=(PolicyGradient(clip=Clip(clip, clip)), KL("k3", coefficient=kl)),
        evaluate=(Watch("rollout.cut"),),
        roles=(Role("ref"),),
    )


@recipe(
    "turn-control",
    summary="A limit of turns that the agent is told: a percentile of what episodes took, extended on demand.",
    citation="More with Less: An Empirical Study of Turn-Control Strategies for Efficient Coding Agents",
    family="turns",
    presets={"fixed": {"start": 75}},
)
def turn_control(n: int = 8, start: int = 50, cap: int = 75, step: int = 10, clip: float = 0.2) -> Method:
    """The limit starts at the percentile `start` of the turns that the rollouts of the last iterations took, and is
    extended by `step` turns while needed, at most to the percentile `cap`. Every observation says how many turns are
    left. A rollout that is cut is `truncated`, so that a part may treat it. GRPO otherwise.

    `turn-control@fixed` has no extensions. Before the first iteration is over there is no limit, as in GRPO. The cost
    counts the context that each turn sends again. The study has no training: its budgets are used for rollouts here.
    """
    for name, q in (("start", start), ("cap", cap)):
        if q not in (25, 50, 75):
            raise PodiumError(f"turn-control: {name} = {q!r} is not 25, 50 or 75.")
    first, last = (Follow(f"turns.p{q}") for q in (start, cap))
    return Method(
        "turn-control",
        rollout=BudgetedTurns(n=n, start=first, cap=last, step=step),
        advantage=Normalize(),
        objective=(PolicyGradient(clip=Clip(clip, clip)),),
        evaluate=(TurnCost(), Watch("rollout.extensions")),
        memories=(TurnCounts(),),
    )
