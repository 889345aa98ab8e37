"""Implicit PRM (PRIME): free process rewards without process labels."""

from __future__ import annotations

from podium.core.errors import PodiumError
from podium.method import Method, Role
from podium.methods.catalogue import recipe
from podium.parts.advantage import TwoSources
from podium.parts.keep import KeepWithin
from podium.parts.metric.process import BestOfN, PairwiseAccuracy
from podium.parts.objective import Clip, PolicyGradient, RolloutLogistic
from podium.parts.reward import LogRatio
from podium.parts.shape import Whiten
from podium.strategies import Sample

__all__ = ["implicit_prm"]


@recipe(
    summary="Implicit process reward model: a log-ratio trained online on outcomes gives dense token rewards.",
    citation="Free Process Rewards without Process Labels, https://github.com/PRIME-RL/ImplicitPRM; PRIME",
    tags=("process reward", "reward model", "credit assignment", "token-level", "baseline"),
)
def implicit_prm(
    n: int = 4,
    beta: float = 0.05,
    coefficient: float = 5.0,
    gamma_process: float = 1.0,
    gamma_outcome: float = 1.0,
    low: float = 0.2,
    high: float = 0.8,
    clip: float = 0.2,
) -> Method:
    """q_t = log π_model − log π_ref; token rewards coefficient · q_t and the outcome at the last token, each minus the
    group's mean (leave-one-out), summed over what is still to come and whitened over the batch's tokens; PPO's clip.

    coefficient = 0 is RLOO on outcomes, whitened. The reward model starts as the policy, scores the batch, and is then
    trained on it: cross-entropy of sigmoid(beta · Σ q) against the outcome. Groups with a mean reward outside [low,
    high] are resampled. Q values are partial sums of q, so the rewards of steps add up to the reward of the answer
    however it is split.

    Args:
        n: Rollouts per task (the group size).
        beta: Scale of the log-ratio in the reward model's loss.
        coefficient: Weight of the process rewards.
        gamma_process: Discount factor per token of the process rewards.
        gamma_outcome: Discount factor per token of the outcome.
        low: Least mean reward of a group that is trained.
        high: Largest mean reward of a group that is trained.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
    """
    if n < 2:
        raise PodiumError(
            f"implicit-prm: n = {n}: a rollout is compared with the others of its group; take two or more."
        )
    margin = 1e-6  # the bounds themselves are kept
    return Method(
        rollout=Sample(n=n),
        reward=(LogRatio("reward_model", coefficient=coefficient),),
        keep=(KeepWithin(low=low - margin, high=high + margin),),
        advantage=TwoSources(gamma_process=gamma_process, gamma_outcome=gamma_outcome),
        shape=(Whiten(),),
        objective=(
            PolicyGradient(clip=Clip(clip, clip)),
            RolloutLogistic(1 / beta, "sum", "ref", groups="all", trains="reward_model"),
        ),
        metric=(PairwiseAccuracy(), BestOfN()),
        roles=(Role("reward_model"), Role("ref")),
    )
