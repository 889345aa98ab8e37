"""SPEAR: self-imitation with progressive exploration for agents."""

from __future__ import annotations

from podium.core.schedule import Cosine, Count
from podium.core.shares import ShareOfRun
from podium.core.term import Aggregate
from podium.memories import SuccessReplay
from podium.method import Home, Method
from podium.methods._shared import ADAMW
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.annotate import MarkDegenerate
from podium.parts.keep import DropMarked, DropVoidTurns, KeepVaried
from podium.parts.objective import Clip, Entropy, PolicyGradient
from podium.parts.reward import CallBonus
from podium.parts.shape import DropCovariant
from podium.parts.updates import SeparateUpdates
from podium.strategies import Sample

__all__ = ["spear"]


@recipe(
    summary="Self-imitation replay with recalibrated advantages, and a fading tool-call bonus as a curriculum.",
    citation="SPEAR: Self-imitation with Progressive Exploration, https://github.com/TencentYoutuResearch/SPEAR",
    tags=("self-imitation", "replay", "tool use", "agents", "exploration", "curriculum"),
    presets={
        "paper": {"count": 2048, "baselines": 10240, "tool_over": 200, "replay_over": 200},
        "scripts": {"entropy": 0.0, "replay_covariance": None, "max_length": 4096},
        "readme": {"covariance": (0.02, 1.0, 40.0), "replay_covariance": None, "tool_over": 100, "replay_over": 200},
    },
    protocol=ADAMW.replace(
        model="Qwen2.5-1.5B-Instruct",
        lr=1e-6,
        tasks=32,
        iterations=200,
        max_tokens=512,
        max_turns=50,
        source="SPEAR verl-agent/examples/grpo_trainer/run_alfworld_spear.sh and defaults of its trainer (ALFWorld)",
    ),
    home=Home("tools", level=2, iterations=8, tasks=8),
)
def spear(
    n: int = 8,
    count: int = 32,
    max_age: int = 5,
    baselines: int = 32,
    tool_over: Count = ShareOfRun(1.0),
    replay_over: Count = ShareOfRun(1.0),
    replay: float = 1.0,
    tool: float = 1.0,
    groups: float = 0.75,
    calls: str = "turn.calls",
    max_length: int = 512,
    clip_low: float = 0.2,
    clip_high: float = 0.28,
    covariance: tuple[float, float, float] = (0.0002, 1.0, 5.0),
    replay_covariance: tuple[float, float, float] | None = (0.02, 2.0, 60.0),
    entropy: float = 0.001,
    void: bool = True,
    mini_batches: int = 2,
) -> Method:
    """R = outcome + mu(t) · min(0.1 · turns with a call, 1); A = R − group mean. Rollouts with A > 0 and a call are
    kept with their log-probabilities; once more than 1.5 · count of them beat the median of the recent group means, 2^k
    ≤ count of those are trained after the batch with A = R − median, their loss times gamma(t), and the buffer is
    emptied. mu falls along a cosine over `tool_over` iterations, gamma rises over `replay_over`. Clip-Cov drops 0.02 %
    of the tokens, at least one, of those with a covariance in (1, 5), and 2 % in (2, 60) when replaying. Degenerate
    answers are not trained, nor are turns with neither a call nor an answer; the 75 % of groups with the most varied
    rewards are.

    replay = tool = 0 is Dr. GRPO with Clip-Cov, an entropy bonus and these filters. The defaults are what the shipped
    scripts for agents run: they set a ramp of 100 for ALFWorld, and Clip-Cov of 2 % in (1, 40), without passing them on
    (`spear@readme`). The buffer has the sizes of the maths script, for 64 rollouts per iteration; `spear@paper` has
    those for agents, 2048 and 10240. The maths script, `spear@scripts`, has no entropy bonus and Clip-Cov alike for
    both.

    Args:
        n: Rollouts per task (the group size).
        count: Rollouts that are replayed at most.
        max_age: Iterations that a rollout stays in the buffer.
        baselines: Group means that are remembered at most.
        tool_over: Iterations over which the tool bonus fades; by default the whole run, as in the authors'.
        replay_over: Iterations over which the replay's weight rises; the same.
        replay: Final weight of the replayed loss.
        tool: Initial weight of the tool bonus.
        groups: Share of the groups, those with the most varied rewards, that is trained.
        calls: Column that says which turns call a tool.
        max_length: The constant by which the token sum of a rollout is divided.
        clip_low: Lower end of the importance ratio's clip range, 1 − clip_low.
        clip_high: Upper end of the importance ratio's clip range, 1 + clip_high.
        covariance: Clip-Cov's share of the tokens, and the lower and upper bound of the covariance.
        replay_covariance: The same for replayed rollouts; None: alike.
        entropy: Coefficient of the entropy bonus.
        void: Leave turns with neither a call nor an answer out of the loss.
        mini_batches: Optimiser steps per batch, and per replay: two in the maths script, one per 1,024 turns else.
    """
    bounds, aggregate = Clip(clip_low, clip_high, dual=10.0), Aggregate(f"token sum / {max_length}, rollout mean")
    share, low, high = covariance
    weight = Cosine(0.0, replay, over=replay_over)
    buffer = SuccessReplay(size=4 * count, count=count, max_age=max_age, baselines=baselines, where="rollout.called")
    return Method(
        rollout=Sample(n=n),
        annotate=(MarkDegenerate(),),
        reward=(CallBonus(Cosine(tool, 0.0, over=tool_over), calls=calls),),
        keep=(KeepVaried(groups), DropMarked(), *((DropVoidTurns(calls),) if void else ())),
        advantage=Normalize(scale="none"),
        shape=(DropCovariant(share, low=low, high=high, clip=bounds, replay=replay_covariance),),
        objective=(
            PolicyGradient(clip=bounds, aggregate=aggregate),
            *((Entropy(coefficient=entropy, aggregate=aggregate),) if entropy else ()),
        ),
        updates=SeparateUpdates(mini_batches=mini_batches, by="group.fresh"),
        memories=(buffer.replace(weight=weight),),
    )
