"""TODO"""

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
    summary="Further rollouts from a random high-entropy token of the first ones, all in one group; then DAPO.",
    citation="CURE, https://github.com/bytedance/CURE",
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

    `cure@stage-2` is DAPO with as many ordinary rollouts: `Phases(get("cure").until(300), get("cure@stage-2"))`
    trains one after the other. branches = 0 is DAPO with n. A candidate is not the first token and has at least
    `characters` characters; without any the whole is sampled anew. Of a question and a copied part with more than
    `max_prompt` tokens together the first are kept.
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
