"""SPEAR: self-imitation with progressive exploration for agents."""

from __future__ import annotations

from podium.core.schedule import Cosine
from podium.core.term import Aggregate
from podium.memories import SuccessReplay
from podium.method import Method
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.annotate import MarkDegenerate
from podium.parts.keep import DropMarked, KeepVaried
from podium.parts.objective import Clip, PolicyGradient
from podium.parts.reward import CallBonus
from podium.parts.shape import DropCovariant
from podium.parts.updates import SeparateUpdates
from podium.strategies import Sample

__all__ = ["spear"]


@recipe(
    summary="Self-imitation replay with recalibrated advantages, and a fading tool-call bonus as a curriculum.",
    citation="SPEAR: Self-imitation with Progressive Exploration, https://github.com/TencentYoutuResearch/SPEAR",
    tags=("self-imitation", "replay", "tool use", "agents", "exploration", "curriculum"),
    presets={"scripts": {"count": 32, "baselines": 32}, "alfworld": {"replay_over": 100}},
)
def spear(
    n: int = 8,
    count: int = 2048,
    max_age: int = 5,
    baselines: int = 10240,
    tool_over: int = 200,
    replay_over: int = 300,
    replay: float = 1.0,
    tool: float = 1.0,
    groups: float = 0.75,
    calls: str = "turn.calls",
    max_length: int = 4096,
    clip_low: float = 0.2,
    clip_high: float = 0.28,
) -> Method:
    """R = outcome + mu(t) · min(0.1 · turns with a call, 1); A = R − group mean. Rollouts with A > 0 and a call are
    kept with their log-probabilities; once more than 1.5 · count of them beat the median of the recent group means, 2^k
    ≤ count of those are trained after the batch with A = R − median, their loss times gamma(t), and the buffer is
    emptied. mu falls along a cosine over `tool_over` iterations, gamma rises over `replay_over`. Clip-Cov drops 2 % of
    the tokens of high covariance; degenerate answers are not trained; the 75 % of groups with the most varied rewards
    are.

    replay = tool = 0 is Dr. GRPO with Clip-Cov and these filters. The readme's horizons are 100 and 200 iterations; the
    maths script's sizes are `spear@scripts`.

    Args:
        n: Rollouts per task (the group size).
        count: Rollouts that are replayed at most.
        max_age: Iterations that a rollout stays in the buffer.
        baselines: Group means that are remembered at most.
        tool_over: Iterations over which the tool bonus fades.
        replay_over: Iterations over which the replay's weight rises.
        replay: Final weight of the replayed loss.
        tool: Initial weight of the tool bonus.
        groups: Share of the groups, those with the most varied rewards, that is trained.
        calls: Column that says which turns call a tool.
        max_length: The constant by which the token sum of a rollout is divided.
        clip_low: Lower end of the importance ratio's clip range, 1 − clip_low.
        clip_high: Upper end of the importance ratio's clip range, 1 + clip_high.
    """
    bounds = Clip(clip_low, clip_high)
    weight = Cosine(0.0, replay, over=replay_over)
    buffer = SuccessReplay(size=4 * count, count=count, max_age=max_age, baselines=baselines, where="rollout.called")
    return Method(
        rollout=Sample(n=n),
        annotate=(MarkDegenerate(),),
        reward=(CallBonus(Cosine(tool, 0.0, over=tool_over), calls=calls),),
        keep=(KeepVaried(groups), DropMarked()),
        advantage=Normalize(scale="none"),
        shape=(DropCovariant(0.02, low=1.0, high=40.0, clip=bounds),),
        objective=(PolicyGradient(clip=bounds, aggregate=Aggregate(f"token sum / {max_length}, rollout mean")),),
        updates=SeparateUpdates(by="group.fresh"),
        memories=(buffer.replace(weight=weight),),
    )
