"""ARPO: agentic reinforced policy optimisation with entropy-based branching."""

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
    summary="Entropy-based adaptive rollout: branches after tool calls where uncertainty rose, within one budget.",
    citation="Agentic Reinforced Policy Optimization, https://github.com/dongguanting/ARPO",
    tags=("agents", "tool use", "exploration", "entropy", "rollout budget", "credit assignment"),
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
    """`initial` of the `n` rollouts start independently; after a turn each forks with probability 0.5 + 0.2 · (H −
    H_0), H the entropy of the turn's first 20 tokens, until there are n. GRPO's advantage on all tokens (soft), or the
    mean of the branches on the turns that they share (hard). PPO's clip, no KL penalty.

    weight = chance = 0 with initial = n is GRPO. For on-policy data soft and hard have the same gradient. The release
    keeps H_0 from batch to batch by row number; here each rollout has its own. It takes entropies over the ten
    likeliest tokens; here they are over the whole vocabulary. Forks are decided when a rollout has ended, in the order
    of its turns.

    Args:
        n: Rollouts per task, branches included.
        initial: Rollouts that start from the prompt.
        weight: Change of the fork probability with the rise in entropy.
        chance: Fork probability where entropy did not change.
        attribution: Credit of shared turns: `soft` (each branch its own) or `hard` (the mean of the branches).
        tools: Reward tool use: the answer's score, plus `bonus` if all tools were used, or `malformed`.
        bonus: Reward for using all tools.
        malformed: Reward where the format is wrong.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
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
