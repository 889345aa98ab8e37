"""GRPO with an eye on how likely the policy found its own answers."""

from __future__ import annotations

from podium.advantage import Normalize
from podium.core.method import Method, Role
from podium.keep import KeepMixed
from podium.methods.catalogue import recipe
from podium.methods.group import anchored
from podium.objective import KL, Clip, PolicyGradient, Updates
from podium.reward import RankDiscount
from podium.rollout import Sample
from podium.shape import ConfidenceShift, OverconfidentErrors

__all__ = ["ace", "progrpo", "unlikeliness_reward"]


@recipe(
    "progrpo",
    summary="Answers of which the policy is surer than of the question lose advantage, rarer ones gain.",
    citation="ProGRPO: Back to Basics: Revisiting Exploration in RL for LLM Reasoning via Generative Probabilities",
    family="group",
    presets={"whole-prompt": {"prompt_share": 1.0}, "mixed-only": {"off": "flat"}},
)
def progrpo(
    n: int = 8,
    alpha: float = 0.3,
    share: float = 0.2,
    prompt_share: float = 0.2,
    off: str = "all wrong",
    clip_low: float = 0.2,
    clip_high: float = 0.28,
) -> Method:
    """A ← A + alpha · (c(prompt) − c(answer)) unless all rewards of the group are 0; A is GRPO's, c = exp of the mean
    log-probability of the `share` least likely tokens, at least one. Clip 0.2/0.28, token mean, no KL.

    The paper's alpha is not known; 0.3 is a guess. Readings differ on two points: whether c(prompt) takes all tokens
    (`progrpo@whole-prompt`), and whether groups that are all right are left alone (`progrpo@mixed-only`). alpha = 0 is
    GRPO with a token mean.
    """
    return Method(
        "progrpo",
        rollout=Sample(n=n),
        advantage=Normalize(singleton="zero"),
        shape=(ConfidenceShift(alpha, share=share, prompt_share=prompt_share, off=off),),
        objective=(PolicyGradient(clip=Clip(clip_low, clip_high)),),
    )


@recipe(
    "ace",
    summary="Wrong answers that training has made likelier than they were are pushed down harder.",
    citation="ACE: Overconfident Errors Need Stronger Correction: Asymmetric Confidence Penalties for RL",
    family="group",
)
def ace(n: int = 8, alpha: float = 1.0, normalized: bool = False, link: str = "softplus", clip: float = 0.2) -> Method:
    """A ← A · (1 + alpha · softplus(c)) where A < 0, with c = Σ_t (log π_old − log π_ref) over the answer; A is GRPO's.

    At the first step c = 0, so that errors weigh 1 + alpha · ln 2. link = "relu" is the paper's ablation, `normalized`
    takes the mean over tokens. It can follow any advantage of rollouts: `methods.dapo() | OverconfidentErrors() |
    Role("ref")`. The paper's alpha is not known; alpha = 0 is GRPO.
    """
    return Method(
        "ace",
        rollout=Sample(n=n),
        advantage=Normalize(singleton="zero"),
        shape=(OverconfidentErrors(alpha, normalized=normalized, link=link),),
        objective=(PolicyGradient(clip=Clip(clip, clip)),),
        roles=(Role("ref"),),
    )


@recipe(
    "unlikeliness-reward",
    summary="A right answer earns less the likelier it was among the answers of its group.",
    citation="He et al. 2025, Rewarding the Unlikely: Lifting GRPO Beyond Distribution Sharpening, "
    "https://github.com/AndreHe02/rewarding-unlikely-release",
    family="group",
)
def unlikeliness_reward(
    n: int = 32,
    beta: float = 0.25,
    epochs: int = 2,
    kl: float = 0.1,
    clip: float = 0.2,
    skip_above: float | None = 20.0,
) -> Method:
    """r ← r · (1 − beta · rank / n), rank 0 for the rollout with the smallest mean log-probability; then GRPO with two
    epochs a batch, k3 to the reference, groups without signal dropped, steps with a gradient norm above 20 skipped.

    Groups that are all right keep a signal: likely answers are pushed down, rare ones up. beta = 0 is GRPO.
    """
    method = Method(
        "unlikeliness-reward",
        rollout=Sample(n=n),
        reward=(RankDiscount(beta),),
        keep=(KeepMixed(top_up=False),),
        advantage=Normalize(),
        objective=(PolicyGradient(clip=Clip(clip, clip)),),
        updates=Updates(epochs=epochs, skip_above=skip_above),
    )
    return anchored(method, KL("k3", coefficient=kl))
