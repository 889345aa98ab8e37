"""SPO: segment policy optimisation."""

from __future__ import annotations

from podium.core.errors import PodiumError
from podium.core.schedule import Count
from podium.core.shares import ShareOfTokens
from podium.core.updates import Updates
from podium.memories import WaitingSegments
from podium.method import Home, Method, Protocol
from podium.methods._shared import anchored
from podium.methods.catalogue import recipe
from podium.parts.advantage import BoundaryDifference, NodeDifference
from podium.parts.metric.report_mean import ReportMean
from podium.parts.objective import KL, Clip, PolicyGradient
from podium.parts.shape import DropSure, DropUncredited, RejectFar, TakeSegments, TrainShared, Whiten
from podium.strategies import Cutpoints, Draw, Fork, Tree

__all__ = ["spo"]

TREE = Protocol(
    model="DeepSeek-R1-Distill-Qwen-1.5B",
    lr=1e-6,
    betas=(0.9, 0.999),
    weight_decay=0.0,
    warmup=0.03,
    schedule="linear",
    clip=1.0,
    tasks=32,
    iterations=1000,
    max_tokens=4096,
    source="AIFrameResearch/SPO configs/polIter_qwen1b_spo_tree_MATH.jsonnet",
)
SHORT = TREE.replace(
    model="rho-1b-sft-GSM8K",
    tasks=16,
    max_tokens=1024,
    source="AIFrameResearch/SPO configs/polIter_rho1bSft2_spo_tree_GSM8K.jsonnet",
)
CHAIN = SHORT.replace(tasks=64, source="AIFrameResearch/SPO configs/polIter_rho1bSft2_spo_chain_GSM8K.jsonnet")


@recipe(
    summary="Segment-level credit without a critic: Monte-Carlo value differences between segment boundaries.",
    citation="Segment Policy Optimization, https://github.com/AIFrameResearch/SPO",
    tags=("credit assignment", "tree search", "process reward", "value function", "rollout budget"),
    protocol=TREE,
    home=Home("sums", level=2, iterations=12, tasks=8),
    presets={
        "paper": {"window": 600, "segments": 512, "per_task": False},
        "gsm8k": {"window": 30, "segments": 64, "mini_batches": 8, "protocol": SHORT},
        "chain": {"form": "chain", "n": 8, "mini_batches": 8, "protocol": CHAIN},
        "standardised": {"scale": "std"},
    },
)
def spo(
    form: str = "tree",
    n: int | None = None,
    branches: tuple[int, ...] = (6, 6),
    window: Count = ShareOfTokens(0.15),
    scale: str = "none",
    every: int = 5,
    probes: int = 9,
    sure: float = 0.9,
    temperature: float = 0.6,
    segments: int | None = 16,
    per_task: bool = True,
    mini_batches: int = 4,
    max_ratio: float = 10.0,
    clip: float = 0.2,
    kl: float = 1e-4,
) -> Method:
    """Tree: n segments of at most `window` tokens, `branches` continuations of each and so on; A = V(node) − V(parent),
    V the mean of a node's children; every segment is trained once, those with A = 0 not at all. Chain (`spo@chain`): n
    rollouts, and `probes` more at every `every`-th token with p < `sure`; A = V(next cut) − V(last), at the end R − V.
    Both: tokens with p ≥ `sure` are not trained; A is whitened over the tokens that are; PPO's clip, token mean.

    A tree without branches is GRPO without std, and with `scale="std"` GRPO with the population std. An iteration
    trains 16 of a tree's segments per task, drawn from its own and those that earlier iterations left, and whitens over
    all of its own, so that those it leaves are on the same scale. Segments have 600 of 4,096 tokens for long answers
    (`spo@paper`), 100 on MATH and 30 on GSM8K for a model of 1.1 billion parameters (`spo@gsm8k`). The release trains
    512 segments of 32 tasks in 4 steps, 1,024 of 16 tasks in 8, and its chains in 8 steps, twice.

    Args:
        form: `tree` (long answers) or `chain` (short ones).
        n: Segments below the task (default 6) or rollouts of the chain (default 1).
        branches: Children of each node, level by level (`tree`).
        window: Tokens of a segment (`tree`); by default a share of `max_tokens`.
        scale: `std` divides the advantage by the std, `none` does not (`tree`).
        every: Uncertain tokens between two cuts (`chain`).
        probes: Rollouts that estimate the value of a cut (`chain`).
        sure: Probability from which on a token is certain.
        temperature: Sampling temperature.
        segments: Segments trained per iteration; None: all of its own (`tree`).
        per_task: Whether that is their number for each task of the batch (`tree`).
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
    drawn = (TakeSegments(segments, per_task),) if tree and segments else ()
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
