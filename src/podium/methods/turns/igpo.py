"""TODO"""

from __future__ import annotations

from podium.method import Method, Role
from podium.methods.catalogue import recipe
from podium.parts.advantage import GainReturns
from podium.parts.objective import KL, Clip, PolicyGradient
from podium.parts.reward import AnswerGain
from podium.strategies import Sample

__all__ = ["igpo"]


@recipe(
    summary="A turn earns what its observation adds to the probability of the right answer; the last one the outcome.",
    citation="Information Gain-based Policy Optimization, https://github.com/GuoqingWang1/IGPO",
    presets={"separate": {"over": "apart"}, "centred": {"scale": "none"}},
)
def igpo(
    n: int = 16,
    gamma: float = 1.0,
    over: str = "joint",
    scale: str = "std",
    gain: float = 1.0,
    outcome: float = 1.0,
    clip: float = 0.2,
    kl: float = 0.001,
) -> Method:
    """r_t = p_{t+1} − p_t for turns before the last, p the probability of the right answer in place of a turn (the
    geometric mean over its tokens); r_T the outcome; A_t = Σ gamma^k r'_{t+k}, with r' = (r − mean)/(std + 1e-6) over
    all turns of the group, or over outcomes and gains `apart`. PPO's clip and a KL of 0.001.

    Rollouts of one turn have no gain: it is GRPO with the population std. The release finds the ends of turns where a
    reward is not 0, so that a gain of exactly 0 merges two turns; here turns are turns. Its first revision cut rewards
    to go at every observation, without std: the formula here is the paper's.
    """
    return Method(
        rollout=Sample(n=n),
        reward=(AnswerGain(gain, outcome),),
        advantage=GainReturns(gamma, over, scale),
        objective=(PolicyGradient(clip=Clip(clip, clip)), KL("k3", coefficient=kl)),
        roles=(Role("ref"),),
    )
