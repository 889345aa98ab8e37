"""SPO (single-stream): one rollout per task and a tracked success rate as baseline."""

from __future__ import annotations

from podium.core.errors import PodiumError
from podium.core.shares import ShareOfRun
from podium.core.updates import Updates
from podium.memories import GroupExperts, StoredResponses, SuccessTracker
from podium.method import Home, Iterations, Method, Phases, Plateau
from podium.methods._shared import ADAMW
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.keep import MeasureOnly
from podium.parts.objective import Clip, PolicyGradient
from podium.parts.select import Uncertain
from podium.parts.shape import Whiten
from podium.strategies import Draw, Sample

__all__ = ["spo_single_stream"]


@recipe(
    summary="Group-free: one rollout per prompt, a persistent success-rate baseline, batch-level normalisation.",
    citation="Xu & Ding 2025, Single-stream Policy Optimization, https://arxiv.org/abs/2509.13232",
    tags=("single rollout", "baseline", "curriculum", "variance reduction", "data selection"),
    protocol=ADAMW.replace(
        model="Qwen3-8B",
        lr=1e-6,
        tasks=1024,
        iterations=500,
        max_tokens=8192,
        max_turns=8,
        pool=14000,
        source="verl-project/verl-recipe spo/train.sh, spo/estimate_offline_values/eval.sh",
    ),
    home=Home("sums", level=2, tasks=96),
    presets={"online": {"offline": 0}, "groups": {"offline": 0, "baseline": "experts"}},
)
def spo_single_stream(
    offline: int = 8,
    half_life: float = 0.06,
    rho_min: float = 0.875,
    rho_max: float = 0.96,
    explore: float = 0.05,
    clip_low: float = 0.2,
    clip_high: float = 0.28,
    dual: float = 10.0,
    mini_batches: int = 8,
    baseline: str = "tracker",
) -> Method:
    """A_i = r_i − v(task), standardised over the rollouts of the batch; v = alpha/(alpha + beta) of Beta counts that
    forget by rho = clip(2^(−D/0.06), 0.875, 0.96) as the policy moves by D; tasks are drawn with weights sqrt(v(1 − v))
    + 0.05. PPO's clip 0.2/0.28, dual clip 10, token mean, no KL penalty.

    D is the mean |log-ratio| on the task's last response, from right after it was trained on to now. Before training
    every task is sampled `offline` times at temperature 0.6 (top-p 0.95, top-k 20), which sets its counts to the weight
    of 1/(1 − rho_min) samples: a phase of its own, which ends when all tasks have been seen, after a third of the run
    at the latest. In `spo-single-stream@online` counts start at 1/2 each. rho_min = rho_max forgets at a constant rate.
    With the group mean in place of v and the group's std it is GRPO.

    In `spo-single-stream@groups` the baseline is what sleeping experts of overlapping groups predict (everybody, the
    domain, the length of the prompt, the task; `GroupExperts`), so that tasks which were never seen have one, too.

    Args:
        offline: Samples of each task before training that set its first value; 0: none.
        half_life: Policy change D after which half of the counts is forgotten.
        rho_min: Least share of the counts that is kept.
        rho_max: Largest share of the counts that is kept.
        explore: Added to every task's sampling weight.
        clip_low: Lower end of the importance ratio's clip range, 1 − clip_low.
        clip_high: Upper end of the importance ratio's clip range, 1 + clip_high.
        dual: Dual clip: where the advantage is negative, the loss is at most dual · |A|.
        mini_batches: Optimiser steps per batch.
        baseline: Of the advantage: the tracked value of the task (tracker), or that of its groups (experts).
    """
    if baseline not in ("tracker", "experts"):
        raise PodiumError(f"baseline must be tracker or experts, not {baseline!r}.")
    tracked = (StoredResponses(), SuccessTracker(half_life=half_life, rho_min=rho_min, rho_max=rho_max))
    training = Method(
        "single stream",
        select=Uncertain(explore),
        rollout=Sample(n=1),
        advantage=Normalize(baseline=f"group.{baseline}.value", key=(), scale="none"),
        shape=(Whiten(level="rollout", epsilon_at="outside"),),
        objective=(PolicyGradient(clip=Clip(clip_low, clip_high, dual=dual)),),
        updates=Updates(mini_batches=mini_batches),
        memories=tracked if baseline == "tracker" else (*tracked, GroupExperts()),
    )
    if not offline:
        return training
    draw = Draw(temperature=0.6, top_p=0.95, top_k=20)
    values = training.with_(
        name="offline values", select=None, rollout=Sample(n=offline, draw=draw), keep=(MeasureOnly(),)
    )
    return Phases(values.until(Plateau("tracked_tasks", patience=1), Iterations(ShareOfRun(1 / 3))), training)
