"""T1: scaling exploration in reinforcement learning for reasoning."""

from __future__ import annotations

from podium.core.schedule import Count
from podium.core.shares import ShareOfRun
from podium.core.updates import Updates
from podium.method import Home, Method, Phases, Protocol, Role
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.annotate import MarkDegenerate
from podium.parts.objective import Entropy, Likelihood, PolicyGradient
from podium.parts.reward import OverrideReward
from podium.parts.shape import CentredKL
from podium.strategies import Draw, Sample

__all__ = ["t1"]


RL = Protocol(model="Qwen2.5-32B", lr=1.5e-6, tasks=32, source="notes on arXiv 2501.11651")


@recipe(
    summary="Scales exploration: 64 high-temperature samples, an entropy bonus and a moving (EMA) KL anchor.",
    citation="Hou et al. 2025, T1: RL and Inference Scaling, https://arxiv.org/abs/2501.11651",
    tags=("exploration", "entropy", "rollout budget", "kl penalty", "negative samples"),
    protocol=RL,
    home=Home("sums", level=1, tasks=8, max_tokens=32),
    presets={"paper": {"warm_lr": 1e-5}, "rl": {"warm": 0}},
)
def t1(
    n: int = 64,
    temperature: float = 1.2,
    penalty: float = -1.0,
    kl: float = 2e-4,
    entropy: float = 1e-3,
    decay: float = 0.995,
    warm: Count = ShareOfRun(0.25),
    warm_lr: float = 1.5e-6,
    epochs: int = 3,
    style: str = "long",
) -> Method:
    """First a warm start: −log π on demonstrations that try and check, in several passes. Then r = −1 for an answer
    that was truncated, repeats itself or is garbled, else 1 or 0; A_i = r_i − mean of the others; A_t = A_i − kl ·
    (d_t − d̄), d = log π − log π_anchor; plain policy gradient on A_t and an entropy bonus. The anchor is a moving
    average of the policy.

    kl = entropy = 0 is RLOO with the penalty; adding a constant to all d changes nothing. The paper joins several
    attempts and their critiques into one demonstration; here they are the world's solutions in the style `style`. Its
    learning rate is 1e-5 for the warm start and 1.5e-6 after it (`t1@paper`); here both are the run's, since a small
    model's is so large that seven times as much destroys it. The entropy weight, the decay of the anchor and the length
    of the warm start relative to the run are not known: the defaults are guesses. `t1@rl` begins with
    reinforcement learning. `podium eval RUN --thinking` measures how accuracy grows with the thinking budget.

    Args:
        n: Rollouts per task (the group size).
        temperature: Sampling temperature.
        penalty: Reward of a degenerate answer.
        kl: Coefficient of the centred KL penalty in the advantages; 0: no anchor.
        entropy: Coefficient of the entropy bonus.
        decay: Decay of the anchor's moving average per iteration; 1: a fixed reference.
        warm: Iterations of the warm start; 0: none.
        warm_lr: Learning rate of the warm start, beside 1.5e-6 of what follows: the ratio of the two holds in any run.
        epochs: Passes over each batch of the warm start.
        style: Which of the world's solutions are imitated, by their style.
    """
    explore = Method(
        "exploration",
        rollout=Sample(n=n, draw=Draw(temperature=temperature)),
        annotate=(MarkDegenerate(),),
        reward=(OverrideReward(value=penalty),),
        advantage=Normalize(centre="leave_one_out", scale="none"),
        shape=(CentredKL(kl),) if kl else (),
        objective=(PolicyGradient(ratio="none"), *((Entropy(coefficient=entropy),) if entropy else ())),
        roles=(Role("anchor", source="policy", decay=decay),) if kl else (),
    )
    if warm == 0:
        return explore
    imitate = Method(
        "warm start",
        rollout=Sample(n=1, demonstrations=(style,)),
        objective=(Likelihood(where="rollout.demonstration"),),
        updates=Updates(epochs=epochs),
        protocol=RL.replace(lr=warm_lr),
    )
    return Phases(imitate.until(warm), explore)
