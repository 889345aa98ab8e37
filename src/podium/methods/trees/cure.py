"""CURE: critical-token-guided re-concatenation against entropy collapse."""

from __future__ import annotations

from podium.core.errors import PodiumError
from podium.method import Method
from podium.methods.base.dapo import dapo
from podium.methods.catalogue import recipe
from podium.parts.metric.report_mean import ReportMean
from podium.parts.shape import TrainShared
from podium.strategies import CriticalToken, Fork

__all__ = ["cure"]


@recipe(
    summary="Prevents entropy collapse: branches from random high-entropy tokens in one group, then plain DAPO.",
    citation="CURE, https://github.com/bytedance/CURE",
    tags=("entropy collapse", "exploration", "entropy", "dynamic sampling"),
    presets={"stage-2": {"stage": 2}},
)
def cure(
    n: int = 4,
    branches: int = 3,
    candidates: int = 20,
    order: str = "entropy",
    characters: int = 2,
    stage: int = 1,
    max_prompt: int = 1500,
    max_length: int = 3584,
    buffer: int = 512,
    clip_low: float = 0.2,
    clip_high: float = 0.28,
    max_rounds: int = 10,
) -> Method:
    """Each of n rollouts is cut at one of its `candidates` tokens of highest entropy and continued `branches` times:
    the copied part carries no loss. DAPO's advantage over all n (1 + branches), its clip, filter and overlong reward.

    branches = 0 is DAPO with n. `cure@stage-2` is DAPO with as many ordinary rollouts: `Phases(get("cure").until(300),
    get("cure@stage-2"))` trains one after the other. If a rollout has no candidate, its branches are sampled from the
    prompt.

    Args:
        n: Rollouts per task before branching.
        branches: Continuations of each.
        candidates: Tokens of highest entropy among which the cut is drawn.
        order: `entropy` cuts among the tokens of highest entropy, `random` among all eligible ones.
        characters: Characters that a candidate has at least; the first token is never one.
        stage: 1 (branching) or 2 (plain DAPO).
        max_prompt: Tokens of question and copied part together at most; longer ones are cut earlier.
        max_length: Length limit of an answer in tokens, where the overlong penalty is full.
        buffer: Tokens before the limit over which the penalty grows from 0.
        clip_low: Lower end of the importance ratio's clip range, 1 − clip_low.
        clip_high: Upper end of the importance ratio's clip range, 1 + clip_high.
        max_rounds: Sampling rounds that may be spent on filling one batch; 0: no limit.
    """
    if stage not in (1, 2):
        raise PodiumError(f"cure: stage = {stage!r} is not 1 or 2.")
    plain = dapo(
        n=n * (1 + branches),
        clip_low=clip_low,
        clip_high=clip_high,
        max_length=max_length,
        buffer=buffer,
        max_rounds=max_rounds,
    )
    if stage == 2:
        return plain
    places = CriticalToken(candidates, characters, order)
    fork = Fork(n=n, fork_points=places, branches=branches, prompt=max_prompt)
    forked = plain.with_(rollout=fork, metric=ReportMean("rollout.fork"))
    return forked | TrainShared("new")
