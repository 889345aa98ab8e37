"""MC-GRPO: median-centred group relative policy optimisation."""

from __future__ import annotations

from podium.core.term import Aggregate
from podium.core.updates import Updates
from podium.method import Home, Method, Protocol
from podium.methods._shared import anchored
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.metric.report_mean import ReportMean
from podium.parts.objective import KL, Clip, PolicyGradient
from podium.parts.shape import DropPivot, Rescale
from podium.strategies import Sample

__all__ = ["mc_grpo"]


# The released runs share everything but model, learning rate and sizes.
MATH = Protocol(
    model="Qwen2.5-Math-1.5B",
    lr=1e-6,
    betas=(0.9, 0.999),
    weight_decay=0.0,
    warmup=0.1,
    schedule="cosine",
    clip=1.0,
    tasks=8,
    max_tokens=3072,
    source="lotusroot-kim/MC-GRPO scripts/GRPO_math.sh, recipes/math/Qwen2.5-Math-1.5B.yaml",
)
GSM8K = MATH.replace(
    model="Qwen3-1.7B",
    lr=2e-6,
    tasks=16,
    max_tokens=1024,
    source="lotusroot-kim/MC-GRPO scripts/MCGRPO_gsm.sh, recipes/gsm8k/Qwen3-1.7B.yaml",
)


@recipe(
    summary="Median baseline for small rollout budgets: robust to outliers; the median rollout is not trained.",
    citation="MC-GRPO, https://github.com/lotusroot-kim/MC-GRPO",
    tags=("baseline", "variance reduction", "rollout budget", "group-relative"),
    protocol=MATH,
    home=Home("sums", level=2),
    presets={
        "gsm8k": {"compensate": True, "protocol": GSM8K},
        "7b": {"protocol": MATH.replace(model="Qwen2.5-7B-Instruct", lr=5e-7)},
        "std": {"scale": "std", "epsilon": 1e-6},
    },
)
def mc_grpo(
    n: int = 8,
    scale: str = "lower_mad",
    epsilon: float = 1e-3,
    compensate: bool = False,
    kl: float = 0.04,
    clip: float = 0.2,
    epochs: int = 2,
) -> Method:
    """n + 1 rollouts; A_i = (r_i − median) / (MAD + 1e-3), MAD the median of |r − median|; one rollout at the median is
    left out of the update. Two epochs per batch, k3 to the reference.

    On binary rewards MAD is 0 wherever most rollouts agree, so the others get ±1000, which gradient clipping absorbs;
    `mc-grpo@std` divides by the group's std instead. `mc-grpo@gsm8k` follows one of the two released trainers, which
    rescales the advantages (`compensate`).

    Args:
        n: Rollouts per task that are trained; one more is sampled.
        scale: What advantages are divided by: `lower_mad`, `std` or `none`.
        epsilon: Added to the scale.
        compensate: Multiply nonzero advantages by (n + 1) / their number in the group.
        kl: Coefficient of the KL penalty (k3) to the reference; 0 loads no reference model.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
        epochs: Passes over each batch, each one optimiser step.
    """
    method = Method(
        rollout=Sample(n=n + 1),
        advantage=Normalize(centre="lower_median", scale=scale, epsilon=epsilon, singleton="zero"),
        shape=(*((Rescale("credited", key=("group",)),) if compensate else ()), DropPivot()),
        objective=(PolicyGradient(clip=Clip(clip, clip), aggregate=Aggregate("token mean, rollout mean")),),
        metric=(ReportMean("rollout.keep.pivot"),),
        updates=Updates(epochs=epochs),
    )
    anchor = KL("k3", coefficient=kl, aggregate=Aggregate("token mean, rollout mean"))
    return anchored(method, anchor)
