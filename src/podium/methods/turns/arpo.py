"""TODO"""

from __future__ import annotations

from podium.core.errors import PodiumError
from podium.method import Method
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.metric.report_mean import ReportMean
from podium.parts.objective import Clip, PolicyGradient
from podium.parts.reward import ToolUse
from podium.parts.shape import SharedNodes
from podium.strategies import Branching

__all__ = ["arpo"]


@recipe(
    summary="Episodes fork after tool calls, more often where the policy became unsure, within one budget.",
    citation="Agentic Reinforced Policy Optimization, https://github.com/dongguanting/ARPO",
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
        rollout=Branching(n=n, initial=initial, weight=weight, chance=chance),
        reward=(ToolUse(bonus, malformed),) if tools else (),
        advantage=Normalize(),
        shape=(SharedNodes(),) if attribution == "hard" else (),
        objective=(PolicyGradient(clip=Clip(clip, clip)),),
        metric=(ReportMean("rollout.forked"),),
    )
