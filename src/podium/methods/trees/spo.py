"""SPO: segment policy optimisation."""

from __future__ import annotations

from podium.core.errors import PodiumError
from podium.core.updates import Updates
from podium.memories import WaitingSegments
from podium.method import Method
from podium.methods._shared import anchored
from podium.methods.catalogue import recipe
from podium.parts.advantage import BoundaryDifference, NodeDifference
from podium.parts.metric.report_mean import ReportMean
from podium.parts.objective import KL, Clip, PolicyGradient
from podium.parts.shape import DropSure, DropUncredited, RejectFar, TakeSegments, TrainShared, Whiten
from podium.strategies import Cutpoints, Draw, Fork, Tree

__all__ = ["spo"]


@recipe(
    summary="Segment-level credit without a critic: Monte-Carlo value differences between segment boundaries.",
    citation="Segment Policy Optimization, https://github.com/AIFrameResearch/SPO",
    tags=("credit assignment", "tree search", "process reward", "value function", "rollout budget"),
    presets={"chain": {"form": "chain"}, "standardised": {"scale": "std"}},
)
def spo(
    form: str = "tree",
    n: int | None = None,
    branches: tuple[int, ...] = (6, 6),
    window: int = 600,
    scale: str = "none",
    every: int = 5,
    probes: int = 9,
    sure: float = 0.9,
    temperature: float = 0.6,
    segments: int | None = 512,
    mini_batches: int = 1,
    max_ratio: float = 10.0,
    clip: float = 0.2,
    kl: float = 1e-4,
) -> Method:
    """Tree: n segments of at most `window` tokens, `branches` continuations of each and so on; A = V(node) − V(parent),
    V the mean of a node's children; every segment is trained once, those with A = 0 not at all. Chain (`spo@chain`): n
    rollouts, and `probes` more at every `every`-th token with p < `sure`; A = V(next cut) − V(last), at the end R − V.
    Both: tokens with p ≥ `sure` are not trained; A is whitened over the tokens that are; PPO's clip, token mean.

    A tree without branches is GRPO without std, and with `scale="std"` GRPO with the population std. An iteration
    trains `segments` of a tree's segments, drawn from its own and those that earlier iterations left, and whitens over
    all of its own, so that those it leaves are on the same scale. The only update of a batch has the ratio 1. The
    release takes 4 or 8 `mini_batches` of 128 or 64 segments. The KL coefficient is an assumption.

    Args:
        form: `tree` (long answers) or `chain` (short ones).
        n: Segments below the task (default 6) or rollouts of the chain (default 1).
        branches: Children of each node, level by level (`tree`).
        window: Tokens of a segment (`tree`).
        scale: `std` divides the advantage by the std, `none` does not (`tree`).
        every: Uncertain tokens between two cuts (`chain`).
        probes: Rollouts that estimate the value of a cut (`chain`).
        sure: Probability from which on a token is certain.
        temperature: Sampling temperature.
        segments: Segments trained per iteration; None: all of its own (`tree`).
        mini_batches: Optimiser steps per batch.
        max_ratio: An update whose mean importance ratio is above this is skipped.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
        kl: Coefficient of the KL penalty (k3) to the reference; 0 loads no reference model.
    """
    if form not in ("tree", "chain"):
        raise PodiumError(f"spo: form = {form!r} is not 'tree' or 'chain'.")
    tree, updates = form == "tree", Updates(epochs=1 if form == "tree" else 2, mini_batches=mini_batches)
    draw = Draw(temperature=temperature)
    grown = Tree(n=n or 6, branches=branches, window=window, draw=draw)
    points = Cutpoints(sure, every)
    cut = Fork(n=n or 1, fork_points=points, branches=probes, purpose="baseline", draw=draw)
    credited = (TrainShared("once"), DropUncredited()) if tree else ()
    drawn = (TakeSegments(segments),) if tree and segments else ()
    near = () if updates.single else (RejectFar(max_ratio),)
    method = Method(
        rollout=grown if tree else cut,
        advantage=NodeDifference(scale) if tree else BoundaryDifference(sure),
        shape=(*credited, DropSure(sure), Whiten(trained_only=True), *drawn, *near),
        objective=(PolicyGradient(clip=Clip(clip, clip), clamp=10.0),),
        metric=(
            ReportMean("token.keep.unsure"),
            *((ReportMean("node.value"),) if tree else ()),
            *((ReportMean("batch.weight.near"),) if near else ()),
        ),
        updates=updates,
        memories=(WaitingSegments(),) if drawn else (),
    )
    return anchored(method, KL("k3", coefficient=kl))
