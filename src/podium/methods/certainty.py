"""Credit that depends on what the model makes of its own answer: how sure it is, how much its hidden states span."""

from __future__ import annotations

from podium.advantage import Normalize
from podium.core.method import Method
from podium.core.schedule import Follow
from podium.methods.catalogue import recipe
from podium.objective import Aggregate, Clip, PolicyGradient
from podium.rollout import Sample
from podium.shape import RankBaselines, RankBonus, SelfCertainty, StatisticFactor, TokenPenalty

__all__ = ["ucas", "verl_effective_rank"]


@recipe(
    "ucas",
    summary="More credit to right answers that were unsure, more blame to sure wrong ones, a deduction on sure tokens.",
    citation="Uncertainty-aware Advantage Shaping (UCAS), https://github.com/xvolcano02/UCAS",
    family="entropy",
    presets={"mean": {"over": "mean"}},
)
def ucas(
    n: int = 16,
    positive: float = 0.25,
    negative: float = 0.35,
    penalty: float = 0.05,
    over: str = "sum",
    scale: str = "std",
    singleton: str = "raw",
    clip: float = 0.2,
) -> Method:
    """C = Σ_t (logsumexp − mean of the logits); A ← A · e^{−0.25 z(C)} where A > 0, A · e^{0.35 z(C)} elsewhere, z over
    the group; then A_t ← A − 0.05 · (min-max of the tokens' raw logits in the batch), at least 0 where A > 0. PPO's
    clip, token mean, no KL. All of it is constant: nothing flows back.

    The release sums C, so that length counts as certainty; `ucas@mean` averages it. `scale="none"` drops both stds.
    A group of one keeps its raw C in the release; `singleton="zero"` leaves its advantage as it is.
    positive = negative = penalty = 0 is GRPO with a token mean. Groups of equal rewards get the deduction alone.
    """
    return Method(
        "ucas",
        rollout=Sample(n=n),
        advantage=Normalize(scale=scale),
        shape=(
            SelfCertainty(over),
            StatisticFactor(scale=scale, positive=positive, negative=negative, singleton=singleton),
            TokenPenalty(weight=penalty),
        ),
        objective=(PolicyGradient(clip=Clip(clip, clip)),),
    )


@recipe(
    "verl-effective-rank",
    summary="A bonus for answers whose hidden states span more than usual, or grow faster when the growth slows down.",
    citation="Beyond the Exploration-Exploitation Trade-off: A Hidden State Approach, https://github.com/hf618/VERL",
    family="entropy",
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
    growth of that (acceleration). D is the relative deviation from a moving average over iterations and β =
    σ(gain · D(acceleration)); A ← A + min(max(β tanh D(rank) + (1 − β) tanh D(velocity), 0), |A|/kappa); else GRPO.

    The release puts the bonus on the last token (`credit="all"` reads the formula for all tokens, `@paper`), and its
    launch line switches it off altogether; here it is on. No bonus in the first iteration. `success=True` lets its
    weight fall as rewards rise. The rank is of the full SVD in float64. kappa → ∞ is GRPO without KL.
    """
    return Method(
        "verl-effective-rank",
        rollout=Sample(n=n),
        advantage=Normalize(),
        shape=(RankBonus(stride, gain=gain, weight=Follow("rank.weight"), kappa=kappa, credit=credit),),
        objective=(PolicyGradient(clip=Clip(clip, clip), aggregate=Aggregate("token mean, rollout mean")),),
        memories=(RankBaselines(stride, rate=rate, success=success),),
    )
