"""GPG: group policy gradient without a surrogate."""

from __future__ import annotations

from podium.method import Home, Method, Protocol
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.objective import PolicyGradient
from podium.parts.shape import Rescale
from podium.strategies import Sample

__all__ = ["gpg"]


@recipe(
    summary="Plain policy gradient with a group-mean baseline, rescaled to make up for groups without signal.",
    citation="Chu et al. 2025, GPG, https://arxiv.org/abs/2504.02546",
    tags=("policy gradient", "baseline", "zero-variance groups", "group-relative"),
    protocol=Protocol(
        model="Qwen/Qwen2.5-Math-7B",
        lr=1e-6,
        betas=(0.9, 0.999),
        weight_decay=0.0,
        warmup=0.03,
        schedule="constant",
        clip=1.0,
        max_tokens=2048,
        max_turns=1,
        source="AMAP-ML/GPG, open-r1/train.sh with config_simple_rl_math_l35_v1.yaml: 4 tasks per GPU",
    ),
    home=Home(level=2),
    presets={"paper": {}, "verl": {"count": "nonzero"}},
)
def gpg(n: int = 8, count: str = "active") -> Method:
    """A_i = alpha · (r_i − mean), with alpha = rollouts of the batch / rollouts of groups whose rewards differ; loss =
    token mean of −A · log π: no importance ratio, no clip, no KL penalty.

    With alpha = 1 it is Dr. GRPO's advantage under REINFORCE. `gpg@verl` counts nonzero rewards instead, so that wrong
    answers with reward 0 count as missing.

    Args:
        n: Rollouts per task (the group size).
        count: What alpha counts: `active` rollouts (of groups whose rewards differ) or `nonzero` rewards.
    """
    return Method(
        rollout=Sample(n=n),
        advantage=Normalize(scale="none"),
        shape=(Rescale(count),),
        objective=(PolicyGradient(ratio="none"),),
    )
