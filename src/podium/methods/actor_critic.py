"""Methods with a critic."""

from __future__ import annotations

from podium.advantage import GAE
from podium.core.method import Method, Role
from podium.core.schedule import Steps
from podium.core.watch import Watch
from podium.methods.catalogue import recipe
from podium.objective import Clip, PolicyGradient, ValueLoss
from podium.reward import TokenReward
from podium.rollout import InFlight, ResumeFirst, Sample, Windowed
from podium.shape import Whiten

__all__ = ["ppo", "tppo"]


@recipe(
    "ppo",
    summary="Per-token advantages from a learned value function, with a clipped probability ratio.",
    citation="Schulman et al. 2017, Proximal Policy Optimization, https://arxiv.org/abs/1707.06347",
)
def ppo(
    n: int = 1,
    gamma: float = 1.0,
    lam: float = 1.0,
    clip: float = 0.2,
    dual: float = 3.0,
    value_clip: float = 0.5,
    kl: float = 0.0,
) -> Method:
    """δ_t = r_t + gamma · V_{t+1} − V_t; A_t = δ_t + gamma · lam · A_{t+1}, whitened over the tokens of the batch;
    max(−A·r, −A·clip(r, 1 ± 0.2)), at most 3·|A| where A < 0; the critic regresses on A + V with a clip of 0.5.

    gamma = lam = 1 with a reward at the end gives R − V_t; with the group's statistics in place of V it is GRPO.
    """
    method = Method(
        "ppo",
        rollout=Sample(n=n),
        reward=(TokenReward(beta=kl),),
        advantage=GAE(gamma=gamma, lam=lam),
        shape=(Whiten(),),
        objective=(PolicyGradient(clip=Clip(clip, clip, dual=dual)), ValueLoss(value_clip)),
        roles=(Role("critic"),),
    )
    return method if kl == 0 else method | Role("ref")


@recipe(
    "tppo",
    summary="PPO on windows: every iteration trains what was just written, finished or not; the rest goes on later.",
    citation="Truncated Proximal Policy Optimization (T-PPO)",
    family="base",
)
def tppo(
    n: int = 1,
    window: int = 8192,
    gamma: float = 1.0,
    lam: float = 0.95,
    clip_low: float = 0.2,
    clip_high: float = 0.28,
    warmup: int = 0,
) -> Method:
    """Each iteration writes at most `window` new tokens of every rollout; those that end, or reach the run's limit, are
    graded and replaced by new tasks, the others go on in the next one. A_t = Σ (gamma·lam)^k δ_{t+k}, where the value
    after the last token of an unfinished rollout is the one before it; PPO's clip on the new tokens alone, token mean.
    The critic learns from all tokens of the rollouts that have just finished, with Monte-Carlo returns.

    A window as long as the limit is PPO with GAE. While the critic says 0 everywhere, unfinished rollouts carry no
    signal: `warmup` trains it alone for so many iterations. lam, clip and no whitening are assumptions; with n > 1 a
    task holds its place until its last rollout has finished. Worlds of single answers only.
    """
    surrogate = PolicyGradient(clip=Clip(clip_low, clip_high), where="token.new")
    return Method(
        "tppo",
        select=ResumeFirst(),
        rollout=Windowed(n, window),
        reward=(TokenReward(finished="rollout.finished"),),
        advantage=GAE(gamma, lam, lam_return=1.0, finished="rollout.finished"),
        objective=(
            surrogate.replace(coefficient=Steps((0.0, 1.0), (0, warmup))) if warmup else surrogate,
            ValueLoss(None, where="rollout.finished"),
        ),
        evaluate=(Watch("rollout.finished"),),
        memories=(InFlight(),),
        roles=(Role("critic"),),
    )
