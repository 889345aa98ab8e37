"""Methods that steer the entropy of the policy: bonuses, bands, anchors, gates, and other temperatures."""

from __future__ import annotations

from podium.advantage import Normalize
from podium.core.errors import PodiumError
from podium.core.method import Method, Role
from podium.core.schedule import Follow
from podium.core.watch import Watch
from podium.keep import KeepWithin, RouteBySuccess
from podium.methods.catalogue import recipe
from podium.methods.group import anchored
from podium.objective import (
    KL,
    Aggregate,
    Clip,
    CovarianceEntropy,
    Entropy,
    EntropyTarget,
    Likelihood,
    PolicyGradient,
    Updates,
)
from podium.reward import (
    DifficultyControl,
    Majority,
    MarkPattern,
    ReferencePower,
    ThinkingMoments,
    VoteQuality,
    WindowReward,
)
from podium.rollout import Sample
from podium.select import Balanced
from podium.shape import (
    EntropyAnchor,
    EntropyBand,
    EntropyGate,
    EntropySetpoint,
    GateState,
    SelectTokens,
    VirtualTemperature,
)

__all__ = ["ares_aepo", "dcpo_distribution", "light_if", "qwenlong_aepo", "rapo_forward_kl", "siren", "spine"]

SELECTED = "token.selected"
SEQUENCE_MEAN = Aggregate("token mean, rollout mean")
# Words at which reasoning turns.
TRIGGERS = r"(?i)\b(wait|but|however|alternatively|maybe|perhaps|hmm|check|verify|because|therefore|so|then|instead)\b"


@recipe(
    "siren",
    summary="Hold the entropy at each answer's most uncertain tokens, inside the nucleus, at its first value.",
    citation="SIREN: Rethinking Entropy Regularization in Large Reasoning Models, https://github.com/Linn3a/siren",
    family="entropy",
)
def siren(
    n: int = 8,
    top_p: float = 0.8,
    share: float = 0.2,
    coefficient: float = 0.005,
    clip: float = 0.28,
    dual: float = 3.0,
    max_length: int = 4096,
    mini_batches: int = 16,
) -> Method:
    """coefficient · (H̄ − H_ref)²: H is the entropy of the renormalised nucleus (the token at which the total reaches
    top_p is out), H̄ its mean over the tokens strictly above the (1 − share)-quantile of their rollout, then over
    rollouts; H_ref is H̄ of the first batch. The surrogate is Dr. GRPO's with a clip of 0.28 and a dual clip of 3.

    coefficient = 0 is that surrogate. H_ref is known after the first iteration, in which there is no pull; a rollout
    without a token above its quantile is left out, where the release gives NaN.
    """
    surrogate = PolicyGradient(
        clip=Clip(clip, clip, dual=dual), aggregate=Aggregate(f"token sum / {max_length}, rollout mean of all")
    )
    pull = EntropyTarget(
        Follow("anchor.level", initial=-1.0),
        top_p=top_p,
        where="token.peak",
        aggregate=SEQUENCE_MEAN,
        coefficient=coefficient,
    )
    return Method(
        "siren",
        rollout=Sample(n=n),
        advantage=Normalize(scale="none"),
        shape=(SelectTokens("entropy", share, scope="rollout", rule="above_quantile", top_p=top_p, into="token.peak"),),
        objective=(surrogate, pull),
        updates=Updates(mini_batches=mini_batches),
        memories=(EntropyAnchor(share, top_p),),
    )


@recipe(
    "spine",
    summary="Without labels: update the uncertain fifth of each answer, and keep its entropy inside a band.",
    citation="SPINE: Token-Selective Test-Time RL with Entropy-Band Regularization, https://github.com/JianghaoWu/SPINE",
    family="entropy",
)
def spine(
    n: int = 8,
    share: float = 0.2,
    low: float = 0.1,
    high: float = 0.5,
    band: float = 0.1,
    kl: float = 0.0,
    clip: float = 0.2,
) -> Method:
    """r = [answer = the most frequent one]; GRPO's advantage; PPO's clip, k3 to the reference and
    band · ((H − H_high)⁺ + (H_low − H)⁺), all over the ⌈share⌉ of each rollout's tokens with the largest entropy, whose
    own 10 % and 50 % quantiles are H_low and H_high.

    share = 1 and band = 0 is TTRL with every rollout trained. The weight of the band is ours: the paper's is not known.
    """
    method = Method(
        "spine",
        rollout=Sample(n=n),
        reward=(Majority(),),
        advantage=Normalize(singleton="zero"),
        shape=(SelectTokens("entropy", share, scope="rollout", rule="ceil"), EntropyBand(low, high)),
        objective=(
            PolicyGradient(clip=Clip(clip, clip), where=SELECTED),
            Entropy("rollout.band.low", "rollout.band.high", where=SELECTED, coefficient=band),
        ),
        evaluate=(VoteQuality(),),
    )
    return anchored(method, KL("k3", where=SELECTED, coefficient=kl))


@recipe(
    "light-if",
    summary="An entropy bonus where log-probability and advantage rise together; a cold start that spares entropy.",
    citation="Light-IF: Preview and Self-Checking for Complex Instruction Following, https://github.com/Qihoo360/Light-IF",
    family="entropy",
    presets={"rl": {}, "sft": {"phase": "sft"}, "release": {"scale": 0.0}},
)
def light_if(
    phase: str = "rl",
    n: int = 8,
    scale: float = 10.0,
    cap: float = 5.0,
    clip: float = 1.0,
    dual: float = 10.0,
    kl: float = 0.001,
    share: float = 0.8,
    trade: float = 0.8,
    style: str = "short",
) -> Method:
    """`rl`: GRPO's advantage, a clip of 1 on both sides, dual clip 10, k3 to the reference, and the bonus κ_t H_t with
    κ = clamp(scale · softmax of the covariance over a rollout, 0, cap), whose gradient also flows through κ.
    `sft`: −log π on demonstrations, over the ⌊share⌋ of their tokens with the largest −log π − trade · H.

    scale = 0 has no bonus, as the release runs: its branch is never reached (`@release`). share = 1 is plain imitation.
    The softmax shares `scale` out over a rollout, so the bonus is as much stronger as answers are shorter: 10 is meant
    for thousands of tokens, and drowns the reward where an answer has twenty.
    """
    if phase == "sft":
        return Method(
            "light-if",
            rollout=Sample(n=1, demonstrations=(style,)),
            keep=(RouteBySuccess(gate=1),),
            shape=(SelectTokens("surplus", share, rule="floor", trade=trade),),
            objective=(Likelihood(where=SELECTED),),
            evaluate=(Watch(SELECTED),),
        )
    if phase != "rl":
        raise PodiumError(f"light-if: phase = {phase!r} is not 'rl' or 'sft'.")
    surrogate = PolicyGradient(clip=Clip(clip, clip, dual=dual))
    method = Method("light-if", rollout=Sample(n=n), advantage=Normalize(), objective=(surrogate,))
    method = method if scale == 0 else method | CovarianceEntropy(scale, cap)
    return anchored(method, KL("k3", coefficient=kl))


@recipe(
    "qwenlong-aepo",
    summary="Advantages on the scale of their domain; while the entropy is too high, successes alone are trained.",
    citation="QwenLong-L1.5, https://github.com/Tongyi-Zhiwen/Qwen-Doc",
    family="entropy",
    presets={"paper": {}, "listing": {"memory": False}},
)
def qwenlong_aepo(
    n: int = 8,
    low: float = 0.18,
    high: float = 0.28,
    memory: bool = True,
    temperature: float = 0.7,
    top_p: float = 0.95,
    clip: float = 0.2,
) -> Method:
    """Every domain is drawn alike. A = (r − mean of the group) / (std over all rollouts of its domain in the batch +
    1e-6). Above the entropy `high` rollouts without A > 0 and reward > 0 are left out, until it falls below `low`.
    On-policy GRPO without KL.

    With one domain and one group, inside the band, it is GRPO. The bounds are ours: the report prints none. The listing
    of the release has no memory and leaves them out inside the band, against its own text: `@listing`.
    """
    return Method(
        "qwenlong-aepo",
        select=Balanced(),
        rollout=Sample(n=n, temperature=temperature, top_p=top_p),
        advantage=Normalize(scope=("rollout.domain",)),
        shape=(EntropyGate(low, high, memory),),
        objective=(PolicyGradient(clip=Clip(clip, clip)),),
        evaluate=(Watch("rollout.keep.gate"),),
        memories=(GateState(),) if memory else (),
    )


@recipe(
    "dcpo-distribution",
    summary="Credit for successes as if they had been sampled hotter or colder, as the entropy asks for.",
    citation="DCPO: Distribution-Centric Policy Optimization, https://github.com/597358816/DCPO",
    family="entropy",
)
def dcpo_distribution(
    n: int = 8,
    target: float = 0.5,
    hot: float = 1.2,
    cold: float = 0.8,
    cap: float = 0.1,
    success: float = 0.05,
    clip: float = 0.2,
    dual: float = 3.0,
) -> Method:
    """A' = (1 − a) A + a · b · ρ with b = [reward > 0.05], ρ = π_T/π of the old policy, T = 1.2 while the entropy of
    the last batch is at most the target, else 0.8, and a = a₀/(1 + a₀), a₀ = min(|target − H|, cap)/mean(b). GRPO's
    advantage A, dual-clip loss, token mean, no KL.

    cap = 0, or an entropy at its target, is GRPO. Without any success a is 0, where the release divides by 0.
    """
    shift = VirtualTemperature(
        Follow("setpoint.temperature", initial=hot), Follow("setpoint.gap", initial=target), cap, success
    )
    return Method(
        "dcpo-distribution",
        rollout=Sample(n=n),
        advantage=Normalize(),
        shape=(shift,),
        objective=(PolicyGradient(clip=Clip(clip, clip, dual=dual)),),
        memories=(EntropySetpoint(target, hot, cold),),
    )


@recipe(
    "rapo-forward-kl",
    summary="A forward KL to a reference that is flattened where its answers fail, so that exploration is wide there.",
    citation="RAPO: Unlocking Reasoning Capabilities in LLMs via RL Exploration, 2025",
    family="entropy",
)
def rapo_forward_kl(
    n: int = 8, low: float = 0.5, high: float = 1.0, kl: float = 0.05, entropy: float = 0.0, clip: float = 0.2
) -> Method:
    """PPO's clip with GRPO's advantage + kl · (w ln w − w + 1) with w = π̂/π and π̂ = softmax(φ(r) · reference logits),
    φ linear from `low` at reward 0 to `high` at reward 1; − entropy · H; means over tokens, then over rollouts.

    kl = entropy = 0 is GRPO; low = high = 1 the plain forward KL; φ = 0 pulls towards the uniform distribution.
    The weights and the form of φ are ours: the paper's are not known.
    """
    method = Method(
        "rapo-forward-kl",
        rollout=Sample(n=n),
        reward=(ReferencePower(low, high),),
        advantage=Normalize(),
        objective=(PolicyGradient(clip=Clip(clip, clip), aggregate=SEQUENCE_MEAN),),
    )
    method = method if entropy == 0 else method | Entropy(coefficient=entropy, aggregate=SEQUENCE_MEAN)
    anchor = KL("forward", power="rollout.power", clamp=10.0, coefficient=kl, aggregate=SEQUENCE_MEAN)
    return anchored(method, anchor)


@recipe(
    "ares-aepo",
    summary="Reward fewer moments of uncertain thought on easy tasks and more on hard ones; a KL weight a difficulty.",
    citation="ARES: Multimodal Adaptive Reasoning via Difficulty-Aware Entropy Shaping, https://github.com/shawn0728/ARES",
    family="entropy",
)
def ares_aepo(
    n: int = 8,
    window: int = 4,
    triggers: str = TRIGGERS,
    top_k: int = 0,
    kl: float = 0.01,
    interval: int = 100,
    target_kl: float = 0.01,
    clip: float = 0.2,
    max_rounds: int = 10,
) -> Method:
    """R = [right] + a bounded reward for n − n*, with n the trigger words after which the mean entropy of `window`
    tokens reaches a tracked threshold, and n* its mean over the tasks of the same difficulty: a penalty above n* on
    easy tasks, for both sides on medium ones, a reward for more on hard ones. k3 to the reference, its weight by
    difficulty driven to a target KL and cut for wrong rollouts on easy tasks that have searched. GRPO's advantage;
    groups whose mean reward lies outside (0.01, 0.99) are replaced.

    With alpha = 0 in the memory it is GRPO on the verdict. The release reads entropies off the k most likely tokens
    (`top_k`; 0 is the whole distribution) and looks for triggers in the likeliest token, here in what was written.
    """
    method = Method(
        "ares-aepo",
        rollout=Sample(n=n),
        reward=(MarkPattern(triggers, into="token.trigger"), ThinkingMoments(window, top_k=top_k), WindowReward()),
        keep=(KeepWithin(max_rounds=max_rounds),),
        advantage=Normalize(),
        objective=(PolicyGradient(clip=Clip(clip, clip)), KL("k3", weight="rollout.kl_weight", coefficient=kl)),
        memories=(DifficultyControl(interval=interval, target_kl=target_kl),),
        roles=(Role("ref"),),
    )
    return method
