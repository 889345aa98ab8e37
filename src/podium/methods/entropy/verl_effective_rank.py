"""VERL: velocity-exploiting rank learning from hidden states."""

from __future__ import annotations

from podium.core.schedule import Follow
from podium.core.term import Aggregate
from podium.memories import RankBaselines
from podium.method import Method
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.objective import Clip, PolicyGradient
from podium.parts.shape import RankBonus
from podium.strategies import Sample

__all__ = ["verl_effective_rank"]


@recipe(
    summary="Exploration bonus from the effective rank of hidden states; its dynamics balance exploitation.",
    citation="Beyond the Exploration-Exploitation Trade-off: A Hidden State Approach, https://github.com/hf618/VERL",
    tags=("exploration", "hidden states", "reward shaping", "advantage estimation"),
    presets={"yaml": {"stride": 20, "rate": 0.7, "gain": 1.5}, "paper": {"credit": "all"}},
)
def verl_effective_rank(
    n: int = 8,
    stride: int = 40,
    rate: float = 0.3,
    gain: float = 2.0,
    kappa: float = 2.0,
    success: bool = False,
    credit: str = "last",
    clip: float = 0.2,
) -> Method:
    """Of a rollout's last 512 hidden states: the effective rank, its growth (velocity) from stride to stride, and the
    growth of that (acceleration). D is the relative deviation from a moving average over iterations and β = σ(gain ·
    D(acceleration)); A ← A + min(max(β tanh D(rank) + (1 − β) tanh D(velocity), 0), |A|/kappa); otherwise GRPO.

    kappa → ∞ is GRPO without KL penalty. There is no bonus in the first iteration. The release puts the bonus on the
    last token (`@paper` reads the formula for all tokens), and its launch line switches it off altogether; here it is
    on. The rank is that of the full SVD in float64.

    Args:
        n: Rollouts per task (the group size).
        stride: Tokens between two measurements of the rank.
        rate: Rate of the moving averages.
        gain: Steepness of β.
        kappa: The bonus is at most |A|/kappa.
        success: Lower the bonus's weight as rewards rise.
        credit: Which tokens get the bonus: the `last` or `all`.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
    """
    return Method(
        rollout=Sample(n=n),
        advantage=Normalize(),
        shape=(RankBonus(stride, gain=gain, weight=Follow("rank.weight"), kappa=kappa, credit=credit),),
        objective=(PolicyGradient(clip=Clip(clip, clip), aggregate=Aggregate("token mean, rollout mean")),),
        memories=(RankBaselines(stride, rate=rate, success=success),),
    )
