"""Many turns: credit for what a turn finds out, and for how sure the policy was in it."""

from __future__ import annotations

from podium.advantage import GainReturns, GatedGain, Normalize
from podium.core.method import Method, Role
from podium.core.schedule import Exponential, Number, TwoPhases
from podium.core.watch import Watch
from podium.methods.catalogue import recipe
from podium.objective import KL, BandPenalty, Clip, Entropy, PolicyGradient
from podium.reward import AnswerGain, FeedbackGain
from podium.rollout import Sample
from podium.shape import EntropyModulation, TurnBand, TurnEntropies

__all__ = ["empg", "epo", "igpo", "infopo"]


@recipe(
    "igpo",
    summary="A turn earns what its observation adds to the probability of the right answer; the last one the outcome.",
    citation="Information Gain-based Policy Optimization, https://github.com/GuoqingWang1/IGPO",
    family="turns",
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
        "igpo",
        rollout=Sample(n=n),
        reward=(AnswerGain(gain, outcome),),
        advantage=GainReturns(gamma, over, scale),
        objective=(PolicyGradient(clip=Clip(clip, clip)), KL("k3", coefficient=kl)),
        roles=(Role("ref"),),
    )


@recipe(
    "infopo",
    summary="Where outcomes are alike, a turn earns how much its feedback changed what the agent did next.",
    citation="Information-Driven Policy Optimization for User-Centric Agents, https://github.com/kfq20/InfoPO",
    family="turns",
    presets={"raw": {"gains": "raw"}, "intrinsic": {"outcome": False}},
)
def infopo(
    n: int = 8,
    weight: float = 0.1,
    decay: float = 0.0,
    tau: float = 0.05,
    cap: float = 1.0,
    gains: str = "normalized",
    outcome: bool = True,
    clip: float = 0.2,
) -> Method:
    """A = A_out + weight · e^{−decay · iteration} · g · m · A_int: the z-score of the outcome, and that of the gains a
    token, gated by g = sigmoid(−std/tau) with the std of the group's outcomes, held to the outcome's size by m. The
    gain of a turn is the mean of log π(next action | feedback) − log π(next action | placeholder).

    weight = 0 is GRPO. `infopo@raw` leaves gains as they are, `infopo@intrinsic` trains on them alone.
    """
    beta: Number = Exponential(weight, decay) if decay else weight
    return Method(
        "infopo",
        rollout=Sample(n=n),
        reward=(FeedbackGain(),),
        advantage=GatedGain(beta, tau, cap, gains, outcome),
        objective=(PolicyGradient(clip=Clip(clip, clip)),),
    )


@recipe(
    "empg",
    summary="Sure turns learn more and unsure ones less, with a bonus for turns that lead to a sure one.",
    citation="Entropy-Modulated Policy Gradients (Harnessing Uncertainty), https://empgseed-seed.github.io",
    family="turns",
)
def empg(n: int = 8, k: float = 1.0, k_future: float = 1.0, zeta: float = 0.1, clip: float = 0.2) -> Method:
    """A_t = A · g(H_t) + zeta · f(H_{t+1}), minus its mean over all turns: A is GRPO's, H_t the mean entropy of the
    turn scaled to [0, 1] over the batch, g = e^{−kH} over its mean, f = e^{−k'H}.

    k = zeta = 0 is GRPO minus the mean over turns. A group whose outcomes are alike still has the bonus, as in the
    reference. zeta is 0.1 on the project page; the paper also uses 0.05.
    """
    return Method(
        "empg",
        rollout=Sample(n=n),
        advantage=Normalize(),
        shape=(EntropyModulation(k, k_future, zeta),),
        objective=(PolicyGradient(clip=Clip(clip, clip)),),
        evaluate=(Watch("turn.factor"),),
    )


@recipe(
    "epo",
    summary="An entropy bonus with a price on tokens whose entropy leaves a band around that turn's own history.",
    citation="Entropy-regularized Policy Optimization for LLM Agents, https://github.com/WujiangXu/EPO",
    family="turns",
    presets={"hinge": {"kind": "hinge"}, "alfworld": {"penalty": 0.1}, "config": {"low": 0.8, "high": 1.2}},
)
def epo(
    n: int = 8,
    turns: int = 30,
    low: float = 0.0,
    high: float = 2.0,
    penalty: float = 0.05,
    kind: str = "step",
    test: str = "token",
    bonus: float = 0.001,
    smooth: float = 1.0,
    over: int = 150,
    clip: float = 0.2,
) -> Method:
    """loss = L_pg − bonus · (mean H − smooth · mean P), with P = penalty · phase where the entropy of a token at turn k
    is outside (low · H̄_k, high · H̄_k): H̄_k is the mean over iterations of the entropy at turn k, and the phase falls
    from 1 over `over` iterations. P acts once a rollout of the batch gets to the second half of the `turns`.

    P is constant around every policy: as published and released it moves the reported loss and not the policy.
    `epo@hinge` prices the distance to the band instead, whose gradient leads back. penalty = 0 is GRPO with an entropy
    bonus. The README's runs, taken here, have the band (0, 2); the configuration's default is `epo@config`.
    """
    return Method(
        "epo",
        rollout=Sample(n=n),
        advantage=Normalize(),
        shape=(TurnBand(low, high),),
        objective=(
            PolicyGradient(clip=Clip(clip, clip)),
            Entropy(coefficient=bonus),
            BandPenalty(penalty, TwoPhases(over), kind, test, coefficient=bonus * smooth),
        ),
        memories=(TurnEntropies(turns),),
    )
