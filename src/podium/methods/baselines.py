"""GRPO with another centre or another scale."""

from __future__ import annotations

from typing import Any

from podium.advantage import Halves, Normalize, ShrunkBaseline, SuccessPrior
from podium.core.errors import PodiumError
from podium.core.method import Method, Role
from podium.core.schedule import Number, Restarts
from podium.core.watch import Watch
from podium.keep import DropSolved
from podium.methods.catalogue import recipe
from podium.methods.group import anchored
from podium.objective import KL, Aggregate, Clip, PolicyGradient, Updates
from podium.reward import Signed
from podium.rollout import Sample, SampleMore
from podium.select import ScoreHistory
from podium.shape import ConsistencyBlend, DropPivot, Rescale

__all__ = ["canon", "copo", "lite_ppo", "mc_grpo", "ngrpo", "v0_5"]


@recipe(
    "ngrpo",
    summary="Each group is compared with a virtual success, so that groups of failures still teach.",
    citation="NGRPO: Negative-enhanced Group Relative Policy Optimization, https://github.com/nangongrui-ngr/NGRPO",
    family="group",
)
def ngrpo(
    n: int = 8,
    virtual: int = 1,
    max_reward: float = 1.0,
    clip_low: float = 0.16,
    clip_high: float = 0.24,
    max_rounds: int = 10,
) -> Method:
    """GRPO's advantage with mean and std over the group and `virtual` rollouts of the highest reward; groups all of
    whose rollouts have it are dropped and sampled for again, surplus groups train in the next batch; clip 0.16/0.24,
    token mean, no KL.

    A group of n failures gets −1/√(n + 1) each. virtual = 0 is GRPO's advantage.
    """
    return Method(
        "ngrpo",
        rollout=Sample(n=n),
        keep=(DropSolved(highest=max_reward, max_rounds=max_rounds),),
        advantage=Normalize(virtual=virtual, virtual_value=max_reward),
        objective=(PolicyGradient(clip=Clip(clip_low, clip_high)),),
    )


@recipe(
    "mc-grpo",
    summary="The median of one rollout more is the baseline; the median rollout itself is not trained.",
    citation="MC-GRPO, https://github.com/lotusroot-kim/MC-GRPO",
    family="group",
    presets={"gsm8k": {"compensate": True}, "std": {"scale": "std", "epsilon": 1e-6}},
)
def mc_grpo(
    n: int = 8,
    scale: str = "lower_mad",
    epsilon: float = 1e-3,
    compensate: bool = False,
    kl: float = 0.04,
    clip: float = 0.2,
) -> Method:
    """n + 1 rollouts; A_i = (r_i − median) / (MAD + 1e-3), MAD the median of |r − median|; one rollout at the median is
    left out of the update. Two epochs a batch, k3 to the reference.

    On binary rewards MAD is 0 wherever most rollouts agree, so the others get ±1000, which clipping the gradient
    absorbs; `mc-grpo@std` divides by the group's std instead, and scale = "none" not at all. `mc-grpo@gsm8k` multiplies
    advantages that are not 0 by (n + 1) / their number, as one of the two released trainers does.
    """
    method = Method(
        "mc-grpo",
        rollout=Sample(n=n + 1),
        advantage=Normalize(centre="lower_median", scale=scale, epsilon=epsilon, singleton="zero"),
        shape=(*((Rescale("credited", key=("group",)),) if compensate else ()), DropPivot()),
        objective=(PolicyGradient(clip=Clip(clip, clip), aggregate=Aggregate("token mean, rollout mean")),),
        evaluate=(Watch("rollout.keep.pivot"),),
        updates=Updates(epochs=2),
    )
    anchor = KL("k3", coefficient=kl, aggregate=Aggregate("token mean, rollout mean"))
    return anchored(method, anchor)


@recipe(
    "lite-ppo",
    summary="Subtract the group's mean, divide by the batch's standard deviation, average over all tokens.",
    citation="Liu et al. 2025, Tricks or Traps? A Deep Dive into RL for LLM Reasoning, https://arxiv.org/abs/2508.08221",
    family="group",
)
def lite_ppo(n: int = 8, clip: float = 0.2, temperature: float = 0.99, top_p: float = 0.99) -> Method:
    """A_i = (r_i − group mean) / (std of all rewards of the batch + 1e-6); clip 0.2, token mean, no KL.

    With one group in the batch it is GRPO's advantage. The mean's scope is `advantage.key`, the std's
    `advantage.scope`: the corners of the study.
    """
    return Method(
        "lite-ppo",
        rollout=Sample(n=n, temperature=temperature, top_p=top_p),
        advantage=Normalize(scope=(), singleton="zero"),
        objective=(PolicyGradient(clip=Clip(clip, clip)),),
    )


@recipe(
    "v0-5",
    summary="Few rollouts: the baseline shrinks to a prior value as far as the data allow, or more are sampled.",
    citation="V0.5: Generalist Value Model as a Prior for Sparse RL Rollouts, https://now-join-us.github.io/V0_5",
    family="group",
)
def v0_5(
    n: int = 4,
    most: int = 16,
    cost: float = 0.0039,
    prior: str = "history",
    value: str | None = None,
    support: int = 8,
    clip_low: float = 0.2,
    clip_high: float = 0.28,
) -> Method:
    """Rewards ±1, k rollouts with mean v, prior V: D² = max(0, (v − V)² − 1/k), w = D²/(D² + 1/k), A = r − (w·v +
    (1 − w)·V). One more rollout is sampled while that takes more than `cost` off D²·(1/k)/(D² + 1/k), up to `most`.

    The paper's prior is a frozen generalist value model: `value` is the directory of one, which reads the scores of
    the last `support` tasks and the task (`podium values RUN --out DIR` trains it). Without one `group.prior` comes
    from the task's own history of success (`prior="history"`), or from a memory of yours that writes it
    (`prior="own"`). With V = v it is Dr. GRPO's advantage on rewards of ±1; a std of the batch is
    `| shape.Whiten(level="rollout")`.
    """
    if prior not in ("history", "own"):
        raise PodiumError(f"v0-5: prior = {prior!r} is not 'history' or 'own'.")
    guessed = (ScoreHistory(reader="value", support=support),) if value else (SuccessPrior(),)
    memories = guessed if prior == "history" else ()
    return Method(
        "v0-5",
        rollout=SampleMore(n=n, most=most, cost=cost),
        reward=(Signed(),),
        advantage=ShrunkBaseline(),
        objective=(PolicyGradient(clip=Clip(clip_low, clip_high)),),
        memories=memories,
        roles=(Role("value", source=value),) if value else (),
    )


# The published schedules of the weight of the other half: first the own half, later the other one, and cosines.
MU: dict[str, Any] = {
    "reward": "reward",
    "1 - reward": "1 - reward",
    "cosine": Restarts(start=1.0, peak=0.4, trough=1.0, warmup=30, period=40),
    "reversed cosine": Restarts(start=0.0, peak=1.0, trough=0.4, warmup=30, period=40),
}


@recipe(
    "canon",
    summary="Compare each rollout with the half of its group that has more, or less, of a metric.",
    citation="CANON: Conditional Advantage Estimation for RL in Large Reasoning Models, https://github.com/biuboomc/CANON",
    family="group",
    presets={"length": {"metric": "rollout.length"}, "dynamic": {"mu": "reward"}, "cosine": {"mu": "cosine"}},
)
def canon(
    n: int = 16,
    metric: str = "entropy",
    mu: Number | str = 1.0,
    alpha: float = 1.0,
    beta: float = 0.0,
    max_length: int = 8192,
    clip_low: float = 0.2,
    clip_high: float = 0.28,
) -> Method:
    """The group sorted by the metric, halved: inter = r − mean of the other half, intra = r − mean of the own half;
    A = (mu · inter + (1 − mu) · intra) / max_length, summed over tokens, mean over rollouts. No std, no KL.

    mu is a number, a schedule, or one of `reward` (the batch's mean reward), `1 - reward`, `cosine`, `reversed cosine`.
    alpha discounts the rewards of long answers (metric `rollout.length`) or of low entropy in inter; beta shifts the
    halves. With even groups and mu = 0.5 it is Dr. GRPO's advantage.
    """
    halves = Halves(
        metric=metric,
        mu=MU.get(mu, mu) if isinstance(mu, str) else mu,
        discount=alpha,
        discounted="high" if metric == "rollout.length" else "low",
        shift=beta,
        divisor=float(max_length),
    )
    term = PolicyGradient(clip=Clip(clip_low, clip_high), aggregate=Aggregate("token sum, rollout mean"))
    return Method("canon", rollout=Sample(n=n), advantage=halves, objective=(term,))


@recipe(
    "copo",
    summary="Where the answers to a task agree, the task is compared with the others of the batch instead.",
    citation="COPO: Consistency-Aware Policy Optimization, https://github.com/hijih/copo-code",
    family="group",
    presets={"log2": {"base": 2.0}},
)
def copo(
    n: int = 6,
    gamma: float = 20.0,
    rho: float = 1.5,
    base: float = 2.718281828459045,
    blend: str = "losses",
    clip: float = 0.2,
) -> Method:
    """loss = w · L(A) + (1 − w) · L(A_global): A is GRPO's, A_global = the group's mean reward standardised over the
    groups, w = sigmoid(gamma · (H − rho)) with H the entropy of the group's answers; both PPO clips share the ratio.

    `blend="advantages"` mixes the advantages in one term instead, which is the same where their signs agree. With gamma
    · (H − rho) → ∞ it is GRPO, → −∞ REINFORCE on tasks. The paper does not say the logarithm's base: `copo@log2`.
    """
    clipped = PolicyGradient(clip=Clip(clip, clip))
    terms = (clipped, clipped.replace(advantage="advantage.global")) if blend == "losses" else (clipped,)
    return Method(
        "copo",
        rollout=Sample(n=n),
        advantage=Normalize(singleton="zero"),
        shape=(ConsistencyBlend(gamma, rho, base=base, blend=blend),),
        objective=terms,
    )
