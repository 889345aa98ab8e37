"""SPO (single-stream): one rollout per task and a tracked success rate as baseline."""

from __future__ import annotations

from podium.core.updates import Updates
from podium.memories import StoredResponses, SuccessTracker
from podium.method import Method
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.objective import Clip, PolicyGradient
from podium.parts.select import Uncertain
from podium.parts.shape import Whiten
from podium.strategies import Sample

__all__ = ["spo_single_stream"]


@recipe(
    summary="Group-free: one rollout per prompt, a persistent success-rate baseline, batch-level normalisation.",
    citation="Xu & Ding 2025, Single-stream Policy Optimization, https://arxiv.org/abs/2509.13232",
    tags=("single rollout", "baseline", "curriculum", "variance reduction", "data selection"),
)
def spo_single_stream(
    half_life: float = 0.06,
    rho_min: float = 0.875,
    rho_max: float = 0.96,
    explore: float = 0.05,
    clip_low: float = 0.2,
    clip_high: float = 0.28,
    dual: float = 10.0,
) -> Method:
    """A_i = r_i − v(task), standardised over the rollouts of the batch; v = alpha/(alpha + beta) of Beta counts that
    forget by rho = clip(2^(−D/0.06), 0.875, 0.96) as the policy moves by D; tasks are drawn with weights sqrt(v(1 − v))
    + 0.05. PPO's clip 0.2/0.28, dual clip 10, token mean, no KL penalty.

    D is the mean |log-ratio| on the task's last response, from right after it was trained on to now. Counts start at
    1/2 each; `SuccessTracker.prior` sets them from offline samples, as the authors do. rho_min = rho_max forgets at a
    constant rate. With the group mean in place of v and the group's std it is GRPO.

    Args:
        half_life: Policy change D after which half of the counts is forgotten.
        rho_min: Least share of the counts that is kept.
        rho_max: Largest share of the counts that is kept.
        explore: Added to every task's sampling weight.
        clip_low: Lower end of the importance ratio's clip range, 1 − clip_low.
        clip_high: Upper end of the importance ratio's clip range, 1 + clip_high.
        dual: Dual clip: where the advantage is negative, the loss is at most dual · |A|.
    """
    return Method(
        select=Uncertain(explore),
        rollout=Sample(n=1),
        advantage=Normalize(baseline="group.tracker.value", key=(), scale="none"),
        shape=(Whiten(level="rollout", epsilon_at="outside"),),
        objective=(PolicyGradient(clip=Clip(clip_low, clip_high, dual=dual)),),
        updates=Updates(mini_batches=8),
        memories=(StoredResponses(), SuccessTracker(half_life=half_life, rho_min=rho_min, rho_max=rho_max)),
    )
