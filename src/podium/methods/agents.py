"""Many turns: credit by seat, kernels that are profiled, lessons, blueprints, and groups that are replaced."""

from __future__ import annotations

from podium.advantage import Comparison, GroupInGroup, Mixture, Normalize, SeatReturns
from podium.core.method import Method, Role
from podium.core.phases import Alternate
from podium.methods.catalogue import recipe
from podium.objective import KL, Aggregate, Clip, PolicyGradient
from podium.reward import Marked, ProgressiveReward, Speedup
from podium.rollout import Sample
from podium.rollout.blueprint import SampleBlueprints
from podium.rollout.lessons import LessonLibrary, SampleAdvised
from podium.shape import RejectLazy, RejectMismatch, ReplaceFlat, SmoothCopies, TrainSteps
from podium.worlds.context import Context

__all__ = ["dr_kernel", "himac", "mars", "slea_rl", "vspo_prs"]


@recipe(
    "mars",
    summary="Rewards of turns, centred apart for each game and seat; their sums to go are the credit.",
    citation="MARS: Reinforcing Multi-Agent Reasoning of LLMs through Self-Play, https://github.com/thu-nics/MARS",
    family="turns",
    presets={"release": {}, "paper": {"reward_centre": "none", "whiten_rewards": False, "whiten_advantages": False}},
)
def mars(
    n: int = 8,
    game: str | None = "rollout.domain",
    agent: str | None = None,
    reward_centre: str = "mean",
    whiten_rewards: bool = True,
    gamma: float = 1.0,
    advantage_centre: str = "mean",
    whiten_advantages: bool = True,
    kl: float = 0.2,
) -> Method:
    """A turn's credit: the sum of rewards from it on, rewards centred over the turns of their game and agent, returns
    over the distinct values of their agent, both whitened over tokens. Clip 0.2, dual clip 1.4.

    The release centres rewards and returns; `mars@paper` sums first and centres the returns of each agent. Without an
    `agent` there is one for all. The release's distinct values include differences of rounding, which are merged here.
    One agent, one turn, `mean` alone: REINFORCE with the mean of the batch as baseline.
    """
    advantage = SeatReturns(game, agent, reward_centre, whiten_rewards, gamma, advantage_centre, whiten_advantages)
    gradient = PolicyGradient(clip=Clip(0.2, 0.2, dual=1.4))
    method = Method("mars", rollout=Sample(n=n), advantage=advantage, objective=(gradient,))
    return method if kl == 0 else method | KL("k3", coefficient=kl) | Role("ref")


@recipe(
    "dr-kernel",
    summary="Returns against the other rollouts at the same turn; kernels are paid for speed, lazy ones rejected.",
    citation="Dr. Kernel: Reinforcement Learning Done Right for Triton, https://github.com/hkust-nlp/KernelGYM",
    family="turns",
)
def dr_kernel(n: int = 16, gamma: float = 1.0, profiled: bool = True, mismatch: float | None = 1e-3) -> Method:
    """A_t = G_t − mean of G_t over the other rollouts of the task with a turn t (TRLOO); alone: G_t. No std.

    With a profiler the reward is 0.5 correct + 0.5 min(speedup, 3) + 0.5 coverage, and a correct turn of low coverage
    is rejected by chance; rollouts whose sampler and trainer disagree by more than `mismatch` are rejected too.
    `profiled=False` takes the world's rewards of turns. On rollouts of one turn it is RLOO.
    """
    comparison = Comparison(gamma=gamma, key=("group", "step.index"), centre="leave_one_out", scale="none")
    method = Method(
        "dr-kernel",
        rollout=Sample(n=n),
        reward=(Speedup(),) if profiled else (),
        advantage=Mixture((comparison,)),
        shape=(RejectLazy(),) if profiled else (),
        objective=(PolicyGradient(clip=Clip(0.2, 0.28), aggregate=Aggregate("token sum / 1000, rollout mean")),),
    )
    return method if mismatch is None else method | RejectMismatch(mismatch)


@recipe(
    "slea-rl",
    summary="Lessons of earlier rollouts are shown at the states they fit; credit as in GiGPO.",
    citation="SLEA-RL: Step-Level Experience Augmented RL, https://github.com/kingofspace0wzz/slea-rl",
    family="turns",
)
def slea_rl(
    n: int = 8,
    gamma: float = 0.95,
    omega: float = 1.0,
    scale: str = "none",
    similarity: float | None = None,
    library: LessonLibrary | None = LessonLibrary(),
    kl: float = 0.01,
) -> Method:
    """A = A_episode + omega · A_step as in `gigpo`, on prompts that show at most two lessons and one warning.

    The library grows by rules from the best successes and the worst failures, never by gradients; a full level gives
    up its lowest score to a higher one. `library=None` is GiGPO bit for bit.
    """
    method = Method(
        "slea-rl",
        rollout=Sample(n=n) if library is None else SampleAdvised(n=n),
        advantage=GroupInGroup(gamma=gamma, omega=omega, scale=scale, similarity=similarity),
        objective=(PolicyGradient(clip=Clip(0.2, 0.2)),),
        memories=() if library is None else (library,),
    )
    return method if kl == 0 else method | KL("k3", coefficient=kl) | Role("ref")


@recipe(
    "himac",
    summary="One model writes a blueprint and follows it; the two are trained in alternating phases.",
    citation="HiMAC: Hierarchical Macro-Micro Learning for Long-Horizon LLM Agents",
    family="turns",
)
def himac(
    n: int = 8,
    choice: str = "confident",
    ask: str = "Write a numbered plan.",
    show: str = "plan:\n{plan}\nnow: {subgoal}\n{observation}",
    context: Context | None = None,
    kl: float = 0.01,
) -> Method:
    """Macro: n blueprints, each followed once; A = (R − mean) / (std + 1e-6) over them, on blueprint tokens alone.
    Micro: n rollouts that follow the blueprint the model is surest of; the same over them, on action tokens alone.

    A group of one gets 0. Micro phases alone, with an empty blueprint, are GRPO.
    """

    def phase(name: str) -> Method:
        method = Method(
            f"himac {name}",
            rollout=SampleBlueprints(n=n, phase=name, choice=choice, ask=ask, show=show, context=context),
            advantage=Normalize(singleton="zero"),
            shape=(TrainSteps("first"),) if name == "macro" else (),
            objective=(PolicyGradient(clip=Clip(0.2, 0.2)),),
        )
        return method if kl == 0 else method | KL("k3", coefficient=kl) | Role("ref")

    return Alternate(phase("macro"), phase("micro"), name="himac")


@recipe(
    "vspo-prs",
    summary="Groups without a signal give their places to copies of valuable ones; rewards are paid in stages.",
    citation="Progressive Reward Shaping and Value-based Sampling Policy Optimization",
    family="turns",
    presets={"unsmoothed": {"smoothing": 0.0}},
)
def vspo_prs(
    n: int = 5,
    parsed: str = ".",
    formatted: str = "(?m)^answer:",
    stages: bool = True,
    smoothing: float = 0.5,
    kl: float = 0.001,
) -> Method:
    """r = 0 where the pattern `parsed` is not found, 0.1 where `formatted` is not, else 0.2 + 0.8 · the world's reward.
    The place of a flat group goes to a copy of one drawn by V = (1 − mean) · std; each of c copies counts c^−smoothing.

    A copy is a weight of its group, exact since the loss is a mean over rollouts of token means. Without flat groups
    and stages it is GRPO.
    """
    aggregate = Aggregate("token mean, rollout mean")
    marks = Marked((("parsed", parsed), ("formatted", formatted)))
    method = Method(
        "vspo-prs",
        rollout=Sample(n=n),
        reward=(marks, ProgressiveReward()) if stages else (),
        advantage=Normalize(singleton="zero"),
        shape=(ReplaceFlat(), SmoothCopies(smoothing)),
        objective=(PolicyGradient(clip=Clip(0.2, 0.2), aggregate=aggregate),),
    )
    return method if kl == 0 else method | KL("k3", coefficient=kl, aggregate=aggregate) | Role("ref")
