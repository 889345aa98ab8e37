"""CausalRM: reward models from observational feedback."""

from __future__ import annotations

from podium.core.schedule import Count
from podium.core.shares import ShareOfRun
from podium.core.updates import Updates
from podium.method import Home, Method, Phases, Protocol, Role
from podium.methods._shared import anchored, clip_for
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.annotate import NoiseAnchors, SimulatedFeedback
from podium.parts.objective import KL, FeedbackLoss, PolicyGradient, ReactionLoss
from podium.parts.objective.feedback_model import HEADS
from podium.parts.reward import ModelReward
from podium.strategies import Sample

__all__ = ["causalrm"]


@recipe(
    summary="A reward model from clicks, corrected for wrong and for selective feedback; then GRPO with it.",
    citation="Wang et al. 2026, CausalRM: Causal-Theoretic Reward Modeling for RLHF from Observational User Feedbacks, "
    "https://arxiv.org/abs/2603.18736",
    tags=("reward model", "rlhf", "label noise", "selection bias", "propensity", "doubly robust"),
    protocol=Protocol(source="arXiv 2603.18736; the code is not released"),
    home=Home("countdown", level=1, iterations=12, tasks=32),
    presets={"paper": {"head_lr": 5e-4}},
)
def causalrm(
    n: int = 8,
    estimator: str = "dr",
    rates: tuple[float, float] | None = None,
    noise: tuple[float, float] = (0.2, 0.1),
    alpha: float = 0.5,
    react: Count = ShareOfRun(0.2),
    fit: Count = ShareOfRun(0.3),
    frozen: bool = True,
    head_lr: float = 5e-3,
    epochs: int = 8,
    clip: float = 0.2,
    kl: float = 0.001,
    mini_batches: int = 4,
) -> Method:
    """Users react to a rollout with probability p (o = 1), and their feedback r in {0, 1} is wrong with the rates
    rho_01 = P(0 | liked) and rho_10 = P(1 | not liked). Squared errors l(f, y) are corrected: l~(f, 1) = [(1 − rho_10)
    l(f, 1) − rho_01 l(f, 0)] / (1 − rho_01 − rho_10), l~(f, 0) likewise. ips: mean of (o / p) l~ over all rollouts; dr:
    mean of e + (o / p) (l~ − e), e an imputed loss. Then GRPO with the reward f.

    Three stages: who reacts and how (propensity and proxy); the reward head, with noise rates 1 − max and min of the
    proxy; GRPO. The policy is trained in the last one alone. Heads are small networks on the states of the frozen
    model. No noise makes l~ the plain loss, and alpha = 1 every propensity 1; `naive` corrects nothing.

    The paper's: losses, order, frozen states, and the simulated users (p ∝ alpha^(max − rating), noise of .2 and .1).
    Ours: the form of e (the loss expected under an imputed label), the length of the stages, and that each learns from
    a few iterations' rollouts, since logged data are not here. `podium rewards fit --estimator dr` fits the same to a
    file of feedback.

    Args:
        n: Rollouts per task (the group size).
        estimator: naive, surrogate (corrects noise), ips (also selection) or dr (doubly robust).
        rates: Noise rates (rho_01, rho_10) that are known; None: by anchors.
        noise: Rates at which the simulated users err: liked, not liked.
        alpha: Base of the probability that a simulated user reacts, alpha^(1 − reward), in (0, 1].
        react: Iterations that train propensity and proxy.
        fit: Iterations that train the reward head.
        frozen: Whether the states under the heads are those of the first policy; else the whole model is trained.
        head_lr: Learning rate of the reward model (the paper's: about 5e-4, over many more steps).
        epochs: Passes over the rollouts of an iteration while the reward model is trained.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
        kl: Coefficient of the KL penalty (k3) to the reference; 0 loads no reference model.
        mini_batches: Optimiser steps per pass over a batch.
    """
    users = SimulatedFeedback(noise, alpha)
    selective = estimator in ("ips", "dr")
    anchors = (NoiseAnchors(),) if rates is None and estimator != "naive" else ()
    seen = None if selective else "rollout.observed"
    role = Role("rm", heads=len(HEADS), frozen=frozen, lr=head_lr)
    learn = Method(rollout=Sample(n=n), annotate=(users,), updates=Updates(epochs=epochs, mini_batches=mini_batches))
    reaction = learn.with_(name="reaction", objective=(ReactionLoss(),), roles=(role,))
    reward = learn.with_(
        name="reward model",
        annotate=(users, *anchors),
        objective=(FeedbackLoss(estimator, rates, where=seen),),
        roles=(role,),
    )
    policy = Method(
        "policy",
        rollout=Sample(n=n),
        reward=(ModelReward(head=HEADS.index("reward"), squash="sigmoid"),),
        advantage=Normalize(),
        objective=(PolicyGradient(clip=clip_for(mini_batches, clip, clip)),),
        updates=Updates(mini_batches=mini_batches),
        roles=(role,),
    )
    first = (reaction.until(react),) if selective or anchors else ()
    return Phases(*first, reward.until(fit), anchored(policy, KL("k3", coefficient=kl)))
