"""VERL: velocity-exploiting rank learning from hidden states."""

from __future__ import annotations

from podium.core.schedule import Count, Follow
from podium.core.shares import ShareOfTokens
from podium.core.updates import Updates
from podium.memories import RankBaselines
from podium.method import Home, Method
from podium.methods._shared import ADAMW, anchored
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.objective import KL, Clip, Entropy, PolicyGradient
from podium.parts.shape import RankBonus
from podium.strategies import Sample

__all__ = ["verl_effective_rank"]


@recipe(
    summary="Exploration bonus from the effective rank of hidden states; its dynamics balance exploitation.",
    citation="Beyond the Exploration-Exploitation Trade-off: A Hidden State Approach, https://github.com/hf618/VERL",
    tags=("exploration", "hidden states", "reward shaping", "advantage estimation"),
    protocol=ADAMW.replace(
        model="Mathstral-7B-v0.1",
        lr=5e-7,
        tasks=48,
        iterations=161,
        max_tokens=1536,
        max_turns=1,
        source="hf618/VERL: train.sh, train_grpo_math_tune_ray.sh",
    ),
    home=Home("rules", tasks=32),
    presets={
        "paper": {"stride": 40, "window": 512},
        "yaml": {"stride": 20, "window": 512, "rate": 0.7, "gain": 1.5},
        "formula": {"credit": "all"},
    },
)
def verl_effective_rank(
    n: int = 4,
    stride: Count = ShareOfTokens(0.026),
    window: Count = ShareOfTokens(1 / 3),
    rate: float = 0.3,
    gain: float = 2.0,
    kappa: float = 2.0,
    success: bool = False,
    credit: str = "last",
    clip: float = 0.2,
    kl: float = 0.001,
    entropy: float = 0.001,
    mini_batches: int = 2,
) -> Method:
    """Of a rollout's last `window` hidden states: the effective rank, its growth (velocity) from stride to stride, and
    the growth of that (acceleration). D is the relative deviation from a moving average over iterations and β = σ(gain
    · D(acceleration)); A ← A + min(max(β tanh D(rank) + (1 − β) tanh D(velocity), 0), |A|/kappa); otherwise GRPO with a
    token mean, a KL penalty (k3) of 0.001, an entropy bonus of 0.001 and 2 updates per batch.

    kappa → ∞ is that GRPO. Stride and window are the authors' 40 and 512 of 1,536 tokens as shares. There is no bonus
    in the first iteration. The release puts the bonus on the last token (`@formula` reads the paper's for all tokens),
    and its launch line switches it off altogether; here it is on. The rank is that of the full SVD in float64.

    Args:
        n: Rollouts per task (the group size).
        stride: Tokens between two measurements of the rank, or a share of the run's limit.
        window: How many of the last tokens each measurement covers, or a share of the run's limit.
        rate: Rate of the moving averages.
        gain: Steepness of β.
        kappa: The bonus is at most |A|/kappa.
        success: Lower the bonus's weight as rewards rise.
        credit: Which tokens get the bonus: the `last` or `all`.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
        kl: Coefficient of the KL penalty (k3) to the reference; 0 loads no reference model.
        entropy: Coefficient of the entropy bonus.
        mini_batches: Optimiser steps per batch.
    """
    method = Method(
        rollout=Sample(n=n),
        advantage=Normalize(),
        shape=(RankBonus(stride, window, gain=gain, weight=Follow("rank.weight"), kappa=kappa, credit=credit),),
        objective=(PolicyGradient(clip=Clip(clip, clip)), *((Entropy(coefficient=entropy),) if entropy else ())),
        updates=Updates(mini_batches=mini_batches),
        memories=(RankBaselines(stride, window, rate=rate, success=success),),
    )
    return anchored(method, KL("k3", coefficient=kl))
