"""TODO"""

from __future__ import annotations

from podium.method import Method
from podium.methods._shared import SELECTED, anchored
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.metric.report_mean import ReportMean
from podium.parts.objective import KL, Clip, PolicyGradient
from podium.parts.reward import Cascade
from podium.parts.shape import SelectTokens
from podium.strategies import Sample

__all__ = ["earl_rtl"]


@recipe(
    summary="The uncertain fifth of each answer gets the policy gradient, every token the pull to the reference.",
    citation="EARL: Entropy-Aware RL Alignment of LLMs for Reliable RTL Code Generation, 2025",
)
def earl_rtl(
    n: int = 8,
    share: float = 0.2,
    clip_low: float = 0.2,
    clip_high: float = 0.28,
    kl: float = 0.001,
    cascade: bool = False,
) -> Method:
    """g_t · max(−A r, −A clip(r)) + kl · k3 with g_t = [H_t ≥ the (1 − share)-quantile of its rollout], H of the
    behaviour policy; both divide by all tokens. GRPO's advantage.

    share = 1 and kl = 0 is PPO's clip with GRPO's advantage. `cascade=True` takes the reward from ordered checks of the
    world: parses, interface, share of tests passed, equivalence. The numbers are choices: no release was found.
    """
    method = Method(
        rollout=Sample(n=n),
        reward=(Cascade(),) if cascade else (),
        advantage=Normalize(),
        shape=(SelectTokens("entropy", share, scope="rollout", of="sampler"),),
        objective=(PolicyGradient(clip=Clip(clip_low, clip_high), where=SELECTED, over="all"),),
        metric=(ReportMean(SELECTED),),
    )
    return anchored(method, KL("k3", coefficient=kl))
