"""TODO"""

from __future__ import annotations

from podium.core.errors import PodiumError
from podium.core.schedule import Linear
from podium.method import Method
from podium.methods._shared import SELECTED
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.metric.report_mean import ReportMean
from podium.parts.objective import Clip, PolicyGradient
from podium.parts.shape import KeepSpread, SelectTokens
from podium.strategies import Sample

__all__ = ["d3s"]


@recipe(
    summary="Train on the rollouts whose advantages vary most and on their uncertain tokens; relax over training.",
    citation="D3S: A Dynamic Dual-Level Down-Sampling Framework for Efficient Policy Optimization, 2025",
)
def d3s(
    n: int = 8,
    rollouts: tuple[float, float] = (0.25, 1.0),
    tokens: tuple[float, float] = (0.2, 0.8),
    over: int = 200,
    within: str = "batch",
    ratio: str = "token",
    clip: float = 0.2,
) -> Method:
    """Of the batch's rollouts the share with the largest variance of A (the k lowest and the rest highest ones), not
    normalised again; of their tokens the ⌈share⌉ with the largest |A| · H; PPO's clip, the mean over what is left.
    Both shares grow linearly over `over` iterations, from the first to the second number.

    rollouts = tokens = (1, 1) is the host: GRPO, or GSPO with `ratio="sequence"`. `within="group"` selects rollouts
    inside each group. The paper's shares are not known: these are ours.
    """
    if within not in ("batch", "group"):
        raise PodiumError(f"d3s: within = {within!r} is not 'batch' or 'group'.")
    chosen = KeepSpread(Linear(*rollouts, over=over), key=() if within == "batch" else ("group",))
    return Method(
        rollout=Sample(n=n),
        advantage=Normalize(),
        shape=(chosen, SelectTokens("stake", Linear(*tokens, over=over), rule="ceil", of="old")),
        objective=(PolicyGradient(ratio=ratio, clip=Clip(clip, clip), where=SELECTED),),
        metric=(ReportMean(SELECTED),),
    )
