"""A few tokens carry the lesson: methods that select tokens, or weigh them by what they do to the entropy."""

from __future__ import annotations

from podium.advantage import Normalize, TokenWeighted
from podium.core.errors import PodiumError
from podium.core.method import Method
from podium.core.schedule import Follow, Linear
from podium.core.watch import Watch
from podium.methods.catalogue import recipe
from podium.methods.group import anchored, dapo
from podium.objective import KL, Clip, PolicyGradient, Updates
from podium.reward import Cascade
from podium.rollout import Sample
from podium.sampler.request import Warmth
from podium.shape import (
    BelowAnchor,
    DropDisruptive,
    EntropyScales,
    HeterogeneousTokens,
    KeepSpread,
    SelectTokens,
    SpareEntropy,
)

__all__ = [
    "d3s",
    "earl_rtl",
    "entropy_discriminator_clip",
    "hapo_heterogeneous",
    "high_entropy_tokens",
    "lp_reg",
    "steer",
]

SELECTED = "token.selected"


@recipe(
    "high-entropy-tokens",
    summary="Only the fifth of the tokens at which the policy is least certain gets a policy gradient.",
    citation="Wang et al. 2025, Beyond the 80/20 Rule, https://arxiv.org/abs/2506.01939",
    family="entropy",
    presets={
        "trl": {},
        "lp-reg": {"rule": "floor", "over": "where"},
        "siren": {"rule": "above_quantile", "scope": "rollout", "over": "where"},
    },
)
def high_entropy_tokens(
    share: float = 0.2,
    rule: str = "quantile",
    scope: str = "batch",
    over: str = "all",
    of: str = "now",
    n: int = 16,
    clip_low: float = 0.2,
    clip_high: float = 0.28,
    dual: float | None = 10.0,
) -> Method:
    """DAPO's loss where H_t ≥ the (1 − share)-quantile of the entropies of all trained tokens of the update; the mean
    still divides by all of them. No KL, no entropy bonus.

    share = 1 is DAPO. `over="where"` divides by the selected tokens, which makes steps 1/share times larger, as two
    later code bases do (`@lp-reg`: the ⌊share · n⌋ largest; `@siren`: strictly above the quantile of each rollout).
    """
    method = dapo(n=n, clip_low=clip_low, clip_high=clip_high).with_(
        name="high-entropy-tokens",
        objective=PolicyGradient(clip=Clip(clip_low, clip_high, dual=dual), where=SELECTED, over=over),
        evaluate=Watch(SELECTED),
    )
    return method | SelectTokens("entropy", share, scope=scope, rule=rule, of=of)


@recipe(
    "steer",
    summary="A smaller weight for tokens whose update would change the entropy much, in either direction.",
    citation="STEER: Rethinking Entropy Interventions in RLVR, https://github.com/zz-haooo/STEER",
    family="entropy",
    presets={"exponential": {"mapping": "exponential"}, "extreme": {"clip_low": 0.99, "clip_high": 5.0}},
)
def steer(
    n: int = 8,
    low: float = 0.8,
    high: float = 1.2,
    mapping: str = "linear",
    clip_low: float = 0.2,
    clip_high: float = 0.28,
    dual: float = 10.0,
) -> Method:
    """w_t falls from `high` to `low` as |A/q · p(1 − p)(log p + H)| rises from its least to its largest value over the
    update; it multiplies a dual-clip loss with GRPO's advantage, token mean, no KL.

    low = high = 1 is dual-clip PPO with GRPO's advantage. The release takes the extremes over each micro-batch, so
    that its size shows; here they are the update's.
    """
    return Method(
        "steer",
        rollout=Sample(n=n),
        advantage=Normalize(),
        shape=(SpareEntropy(low, high, mapping),),
        objective=(PolicyGradient(clip=Clip(clip_low, clip_high, dual=dual)),),
        updates=Updates(mini_batches=16),
        evaluate=(Watch("token.weight.entropy"),),
    )


@recipe(
    "d3s",
    summary="Train on the rollouts whose advantages vary most and on their uncertain tokens; relax over training.",
    citation="D3S: A Dynamic Dual-Level Down-Sampling Framework for Efficient Policy Optimization, 2025",
    family="group",
)
def d3s(
    n: int = 8,
    rollouts: tuple[float, float] = (0.25, 1.0),
    tokens: tuple[float, float] = (0.2, 0.8),
    over: int = 200,
    within: str = "batch",
    ratio: str = "token",
    clip: float = 0.2,
) -> Method:
    """Of the batch's rollouts the share with the largest variance of A (the k lowest and the rest highest ones), not
    normalised again; of their tokens the ⌈share⌉ with the largest |A| · H; PPO's clip, the mean over what is left.
    Both shares grow linearly over `over` iterations, from the first to the second number.

    rollouts = tokens = (1, 1) is the host: GRPO, or GSPO with `ratio="sequence"`. `within="group"` selects rollouts
    inside each group. The paper's shares are not known: these are ours.
    """
    if within not in ("batch", "group"):
        raise PodiumError(f"d3s: within = {within!r} is not 'batch' or 'group'.")
    chosen = KeepSpread(Linear(*rollouts, over=over), key=() if within == "batch" else ("group",))
    return Method(
        "d3s",
        rollout=Sample(n=n),
        advantage=Normalize(),
        shape=(chosen, SelectTokens("stake", Linear(*tokens, over=over), rule="ceil", of="old")),
        objective=(PolicyGradient(ratio=ratio, clip=Clip(clip, clip), where=SELECTED),),
        evaluate=(Watch(SELECTED),),
    )


@recipe(
    "earl-rtl",
    summary="The uncertain fifth of each answer gets the policy gradient, every token the pull to the reference.",
    citation="EARL: Entropy-Aware RL Alignment of LLMs for Reliable RTL Code Generation, 2025",
    family="entropy",
)
def earl_rtl(
    n: int = 8,
    share: float = 0.2,
    clip_low: float = 0.2,
    clip_high: float = 0.28,
    kl: float = 0.001,
    cascade: bool = False,
) -> Method:
    """g_t · max(−A r, −A clip(r)) + kl · k3 with g_t = [H_t ≥ the (1 − share)-quantile of its rollout], H of the
    behaviour policy; both divide by all tokens. GRPO's advantage.

    share = 1 and kl = 0 is PPO's clip with GRPO's advantage. `cascade=True` takes the reward from ordered checks of the
    world: parses, interface, share of tests passed, equivalence. The numbers are choices: no release was found.
    """
    method = Method(
        "earl-rtl",
        rollout=Sample(n=n),
        reward=(Cascade(),) if cascade else (),
        advantage=Normalize(),
        shape=(SelectTokens("entropy", share, scope="rollout", of="sampler"),),
        objective=(PolicyGradient(clip=Clip(clip_low, clip_high), where=SELECTED, over="all"),),
        evaluate=(Watch(SELECTED),),
    )
    return anchored(method, KL("k3", coefficient=kl))


@recipe(
    "entropy-discriminator-clip",
    summary="Leave out punished tokens whose punishment would move the entropy by an unusual amount.",
    citation="On the Entropy Dynamics in Reinforcement Fine-Tuning of LLMs, https://github.com/agentscope-ai/Trinity-RFT",
    family="entropy",
    presets={"clip-b": {}, "clip-v": {"norm": "vocabulary", "mu": 8.5}},
)
def entropy_discriminator_clip(
    n: int = 8, norm: str = "batch", mu: float = 2.5, at_most: float = 1e-4, clip: float = 0.2
) -> Method:
    """S = p (log p + H): one step on a token with advantage A changes the entropy by −η A (S − E_S) to first order.
    Clip_B drops tokens with A < 0 and S more than mu standard deviations below the batch's mean; `@clip-v` those with
    A ≤ 0 and E_S − S above mu of its standard deviations, at most the share `at_most`. They leave the denominator.

    With a large mu it is GRPO without KL. One update a batch: the numbers are those of the policy that is updated.
    """
    return Method(
        "entropy-discriminator-clip",
        rollout=Sample(n=n),
        advantage=Normalize(),
        shape=(DropDisruptive(mu, norm, at_most),),
        objective=(PolicyGradient(clip=Clip(clip, clip)),),
        evaluate=(Watch("token.keep.disruptive"),),
    )


@recipe(
    "lp-reg",
    summary="Pull back up the rarest punished tokens, if they are not noise and have fallen below where they were.",
    citation="Low-probability Tokens Sustain Exploration in RL with Verifiable Reward, https://github.com/CarlanLark/Lp-Reg-dev",
    family="entropy",
    presets={"on-policy": {}, "off-policy": {"mini_batches": 8}},
)
def lp_reg(
    n: int = 8,
    share: float = 0.01,
    min_p: float = 0.02,
    beta: float = 1.0,
    clip_low: float = 1.0,
    clip_high: float = 9.0,
    mini_batches: int = 1,
) -> Method:
    """Of the tokens with A < 0 the share with the smallest log π (if that is two or more), and of these the ones below
    log π̃, the old policy without the tokens below min_p times its likeliest: they get −A r + beta · k3(π̃ ‖ π) without
    clip; all others PPO's clip, which stops ratios above 10 alone. GRPO's advantage, token mean.

    beta = 0 is the unclipped loss on those tokens. The release selects within each micro-batch, this within the update.
    """
    starved = "token.starved"
    return Method(
        "lp-reg",
        rollout=Sample(n=n),
        advantage=Normalize(),
        shape=(
            SelectTokens("surprise", share, rule="floor", sign="negative", none_below=2),
            BelowAnchor("old", min_p, clip_low),
        ),
        objective=(
            PolicyGradient(clip=Clip("token.clip_low", clip_high)),
            KL("k3", anchor="old", min_p=min_p, limit=10.0, where=starved, over="all", coefficient=beta),
        ),
        updates=Updates(mini_batches=mini_batches),
        evaluate=(Watch(starved),),
    )


@recipe(
    "hapo-heterogeneous",
    summary="Clip ranges, advantages and group statistics by how uncertain each token is.",
    citation="HAPO: From Uniform to Heterogeneous, https://github.com/starriver030515/HAPO",
    family="entropy",
    presets={"paper": {}, "release": {"sign": "released"}},
)
def hapo_heterogeneous(
    n: int = 16,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    alpha: float = 1.0,
    beta: float = 1.0,
    pivot: float = 0.8,
    sign: str = "intended",
    dual: float = 10.0,
    warmth: float = 0.05,
) -> Method:
    """Advantages with mean and std over the tokens of a group; ĥ, the log-entropy about its 0.8 quantile scaled to
    [−1, 1], opens the upper clip bound by (1 + alpha ĥ) where ĥ > 0, else the lower one by (1 − alpha ĥ), and moves A
    to A (1 + beta ĥ) outside the middle of the range (ĥ > 0) or inside it (ĥ ≤ 0). DAPO's sampling, dual clip, token
    mean.

    Tokens are drawn at T (1 + warmth · ĥ) for the ĥ of their own step, on the scale of the batch before.

    alpha = beta = warmth = 0 with equal lengths is DAPO up to the population std. In the release certain tokens have
    the wrong sign and count as uncertain: `@release`.
    """
    bounds = Clip("token.clip_low", "token.clip_high", dual=dual)
    objective = PolicyGradient(clip=bounds)
    method = dapo(n=n).with_(name="hapo-heterogeneous", advantage=TokenWeighted(), objective=objective)
    method = method.with_(evaluate=Watch("token.clip_high"))
    method = method | HeterogeneousTokens(clip_low, clip_high, alpha, beta, pivot, sign)
    if warmth == 0:
        return method
    scale = {name: Follow(f"warmth.{name}") for name in ("pivot", "above", "below")}
    return method | Sample(n=n, warmth=Warmth(warmth, **scale)) | EntropyScales(pivot, sign)
