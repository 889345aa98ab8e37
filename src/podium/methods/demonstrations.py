"""Methods that learn from their own rollouts and from demonstrations."""

from __future__ import annotations

from podium.advantage import Normalize
from podium.core.method import Method
from podium.core.part import Keep
from podium.core.watch import Watch
from podium.evaluation.wins import ReferenceWins
from podium.keep import RouteBySuccess, RouteSoftly
from podium.methods.catalogue import recipe
from podium.objective import Aggregate, Clip, Entropy, Guide, Likelihood, PolicyGradient, Shaped, Term, Updates
from podium.rollout import Sample
from podium.shape import AlignExpert, Contrast

__all__ = ["calibrl", "grao", "hpt"]


@recipe(
    "hpt",
    summary="Task by task: reinforce the rollouts where enough of them are right, imitate a demonstration elsewhere.",
    citation="Lv et al. 2025, Towards a Unified View of LLM Post-Training, https://arxiv.org/abs/2509.04419",
    family="hybrid",
    presets={"llama": {"gate": 2}, "small": {"sft": 0.3}, "soft": {"soft": True}},
)
def hpt(
    n: int = 8,
    gate: int = 0,
    sft: float = 1.0,
    clip: float | None = None,
    max_length: int = 8192,
    entropy: float = 0.001,
    soft: bool = False,
    gamma: float = 0.1,
    style: str = "short",
) -> Method:
    """solved = rollouts with reward 1. solved > gate: Σ −A·r / max_length over the rollouts, A = r_i − mean, without
    clip; else they are dropped for −log π on the demonstration, the mean over its tokens times `sft`. A bonus on the
    entropy of all rows that are left.

    gate = −1 is Dr. GRPO summed over rollouts, gate = n imitation alone. An update whose gradient
    norm exceeds 80 is skipped. The release sums over the rollouts of a micro-batch, this over those of the update.
    `hpt@soft`, in the release too, has no gate: the rollouts weigh 0, 1/8, 1/4, 1/2, 1 after 1, 2, 3, 4, 5 or more were
    solved, −log π of the demonstration 1, 1/2, 1/4, 1/8, 0, and −A p / (p + gamma) is added for it throughout.
    """
    whole = Aggregate(f"token sum / {max_length}")
    surrogate = PolicyGradient(clip=None if clip is None else Clip(clip, clip), aggregate=whole)
    imitate = Likelihood(coefficient=sft)
    routes: Keep
    terms: tuple[Term, ...]
    if soft:
        shaped = Shaped(gamma, where="rollout.demonstration", aggregate=whole)
        imitate = imitate.replace(where="rollout.demonstration", weight="rollout.imitation")
        routes, terms = RouteSoftly(), (surrogate.replace(where="rollout.sampled"), shaped, imitate)
        watched = Watch("rollout.imitation", where="rollout.demonstration")
    else:
        routes = RouteBySuccess(gate)
        terms = (surrogate.replace(where="rollout.reinforced"), imitate.replace(where="rollout.imitated"))
        watched = Watch("group.imitated")
    method = Method(
        "hpt",
        rollout=Sample(n=n, demonstrations=(style,)),
        keep=(routes,),
        advantage=Normalize(scale="none"),
        objective=terms,
        updates=Updates(skip_above=80.0),
        evaluate=(watched,),
    )
    return method if entropy == 0 else method | Entropy(coefficient=entropy)


@recipe(
    "calibrl",
    summary="A demonstration as a yardstick: right rollouts are pushed above its likelihood, wrong ones below it.",
    citation="CalibRL: Controllable Exploration in Hybrid-Policy RLVR, https://github.com/zhh6425/CalibRL",
    family="hybrid",
)
def calibrl(
    n: int = 10,
    guide: float = 0.1,
    leak: float = 0.5,
    clip: float = 0.2,
    dual: float = 3.0,
    share: float = 1.0,
    past_end: str = "certain",
    style: str = "short",
) -> Method:
    """A = r − mean of the sampled rollouts, so |A| is how rare the outcome is; PPO's clip with dual clip 3; plus
    `guide` · |A| · LeakyReLU(−y (log π − e)), with e the demonstration's log π_old at the same position and y = ±1 the
    outcome. The demonstration is never trained.

    guide = 0 is PPO with Dr. GRPO's advantage; leak = 1 a push by rareness whatever the demonstration, leak = 0 none
    past it. As in the release, e is 0 past the demonstration's end; past_end = "skip" leaves those tokens out.
    """
    return Method(
        "calibrl",
        rollout=Sample(n=n, demonstrations=(style,), demonstrate_as="baseline"),
        advantage=Normalize(scale="none"),
        shape=(AlignExpert(share=share, past_end=past_end),),
        objective=(
            PolicyGradient(clip=Clip(clip, clip, dual=dual)),
            Guide(leak, where="token.guided", over="all", coefficient=guide),
        ),
    )


@recipe(
    "grao",
    summary="Raise rollouts and the reference answer by advantages on one scale, and the gap between them.",
    citation="Learning to Align, Aligning to Learn (GRAO), https://arxiv.org/abs/2508.07750",
    family="hybrid",
    presets={"one-group": {"reference_in_statistics": True}},
)
def grao(
    n: int = 8,
    beta: float = 0.5,
    lam: float = 0.6,
    epsilon: float = 1e-8,
    reference_in_statistics: bool = False,
    temperature: float = 0.7,
    style: str = "short",
) -> Method:
    """J = (1/n) Σ A_i J_i + beta · A_y J_y + lam · (1/n) Σ A_i (J_i − J_y), with J the mean log-likelihood of an answer
    and A = (R − mean) / std over the rollouts (population std), for the reference answer y too. No ratio, clip or KL.

    Over the rollouts alone Σ A_i = 0, so the last part is lam times the first; with `reference_in_statistics` it acts
    on its own. beta = lam = 0 is on-policy GRPO with a sequence mean. Where all rewards are equal they are not divided.
    `wins` in the metrics is the share of rollouts that beat the reference answer (RAS).
    """
    by_answer = Aggregate("token mean, rollout mean, group mean")
    summed = Aggregate("token mean, rollout sum, group mean")
    demonstrate_as = "train" if reference_in_statistics else "demo"
    return Method(
        "grao",
        rollout=Sample(n=n, temperature=temperature, demonstrations=(style,), demonstrate_as=demonstrate_as),
        advantage=Normalize(unbiased=False, epsilon=epsilon, zero_scale="skip"),
        shape=(Contrast(),),
        objective=(
            PolicyGradient(ratio="none", where="rollout.sampled", aggregate=by_answer),
            PolicyGradient(ratio="none", where="rollout.demonstration", coefficient=beta, aggregate=by_answer),
            PolicyGradient(ratio="none", advantage="advantage.contrast", coefficient=lam, aggregate=summed),
        ),
        evaluate=(Watch("rollout.advantage", where="rollout.demonstration"), ReferenceWins()),
    )
