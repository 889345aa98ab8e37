"""Forking tokens: beyond the 80/20 rule."""

from __future__ import annotations

from podium.method import Method
from podium.methods._shared import SELECTED
from podium.methods.base.dapo import dapo
from podium.methods.catalogue import recipe
from podium.parts.metric.report_mean import ReportMean
from podium.parts.objective import Clip, PolicyGradient
from podium.parts.shape import SelectTokens

__all__ = ["high_entropy_tokens"]


@recipe(
    summary="Trains only on forking tokens, the 20% with the highest entropy (80/20 rule).",
    citation="Wang et al. 2025, Beyond the 80/20 Rule, https://arxiv.org/abs/2506.01939",
    tags=("entropy", "token-level", "exploration", "efficiency"),
    presets={
        "trl": {},
        "lp-reg": {"rule": "floor", "over": "where"},
        "siren": {"rule": "above_quantile", "scope": "rollout", "over": "where"},
    },
)
def high_entropy_tokens(
    share: float = 0.2,
    rule: str = "quantile",
    scope: str = "batch",
    over: str = "all",
    of: str = "now",
    n: int = 16,
    clip_low: float = 0.2,
    clip_high: float = 0.28,
    dual: float | None = 10.0,
) -> Method:
    """DAPO's loss where H_t ≥ the (1 − share)-quantile of the entropies of all trained tokens of the update; the mean
    still divides by all of them. No KL penalty, no entropy bonus.

    share = 1 is DAPO. Dividing by the selected tokens makes steps 1/share times larger, as two later code bases do
    (`@lp-reg`: the ⌊share · n⌋ largest; `@siren`: strictly above the quantile of each rollout).

    Args:
        share: Share of the tokens that is trained.
        rule: How they are selected: `quantile`, `above_quantile`, `floor` or `ceil`.
        scope: Where the share is taken: the `batch` (each update) or each `rollout`.
        over: What the mean divides by: `all` trained tokens, or those selected (`where`).
        of: Whose entropy: the policy's `now`, the `old` policy's or the `sampler`'s.
        n: Rollouts per task (the group size).
        clip_low: Lower end of the importance ratio's clip range, 1 − clip_low.
        clip_high: Upper end of the importance ratio's clip range, 1 + clip_high.
        dual: Dual clip: where the advantage is negative, the loss is at most dual · |A|; None: no dual clip.
    """
    method = dapo(n=n, clip_low=clip_low, clip_high=clip_high).with_(
        objective=PolicyGradient(clip=Clip(clip_low, clip_high, dual=dual), where=SELECTED, over=over),
        metric=ReportMean(SELECTED),
    )
    return method | SelectTokens("entropy", share, scope=scope, rule=rule, of=of)
