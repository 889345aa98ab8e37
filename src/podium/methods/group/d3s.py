"""D3S: dynamic dual-level down-sampling of rollouts and tokens."""

from __future__ import annotations

from podium.core.errors import PodiumError
from podium.core.schedule import Count, Linear
from podium.core.shares import ShareOfRun
from podium.core.updates import Updates
from podium.method import Home, Method, Protocol
from podium.methods._shared import SELECTED
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.metric.report_mean import ReportMean
from podium.parts.objective import Clip, PolicyGradient
from podium.parts.shape import KeepSpread, SelectTokens
from podium.strategies import Sample

__all__ = ["d3s"]


@recipe(
    summary="Down-samples to high-variance rollouts and their uncertain, high-advantage tokens; relaxes over training.",
    citation="D3S: A Dynamic Dual-Level Down-Sampling Framework for Efficient Policy Optimization, 2025",
    tags=("data selection", "efficiency", "token-level", "entropy", "curriculum"),
    protocol=Protocol(
        model="Qwen2.5-Math-7B",
        source="arXiv 2509.22115, public reviews",
    ),
    home=Home("sums", level=2),
)
def d3s(
    n: int = 8,
    rollouts: tuple[float, float] = (0.25, 1.0),
    tokens: tuple[float, float] = (0.2, 0.8),
    over: Count = ShareOfRun(1.0),
    within: str = "batch",
    ratio: str = "token",
    clip: float = 0.2,
    mini_batches: int = 4,
) -> Method:
    """Of the batch's rollouts, the subset of the given share whose advantages have the largest variance (the k lowest
    and the rest highest), not normalised again; of their tokens, the ⌈share⌉ with the largest |A| · H; PPO's clip, the
    mean over what is left. Both shares grow linearly over `over` iterations, from the first to the second number.

    rollouts = tokens = (1, 1) is the method it is applied to: GRPO, or GSPO with `ratio="sequence"`. The paper's shares
    are not known, nor its optimiser steps per batch; the defaults are assumptions.

    Args:
        n: Rollouts per task (the group size).
        rollouts: Share of the rollouts that is trained, at the start and at the end.
        tokens: Share of their tokens that is trained, at the start and at the end.
        over: Iterations over which both shares grow; by default the whole run, as published.
        within: Whether rollouts are selected over the whole `batch` or inside each `group`.
        ratio: The importance ratio: `token` or `sequence`.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
        mini_batches: Optimiser steps per batch; the number is ours.
    """
    if within not in ("batch", "group"):
        raise PodiumError(f"d3s: within = {within!r} is not 'batch' or 'group'.")
    chosen = KeepSpread(Linear(*rollouts, over=over), key=() if within == "batch" else ("group",))
    return Method(
        rollout=Sample(n=n),
        advantage=Normalize(),
        shape=(chosen, SelectTokens("stake", Linear(*tokens, over=over), rule="ceil", of="old")),
        objective=(PolicyGradient(ratio=ratio, clip=Clip(clip, clip), where=SELECTED),),
        updates=Updates(mini_batches=mini_batches),
        metric=(ReportMean(SELECTED),),
    )
