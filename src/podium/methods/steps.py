"""Many turns: credit from comparisons of steps, each method by the keys that it compares within."""

from __future__ import annotations

from podium.advantage import Comparison, Mixture
from podium.core.errors import PodiumError
from podium.core.method import Method, Role
from podium.methods.catalogue import recipe
from podium.objective import KL, Aggregate, Clip, Entropy, PolicyGradient
from podium.reward import MatchCalls, MetaReasoning, RandomBlocks, ReadTags
from podium.rollout import Sample
from podium.shape import DropLongContexts, WholeShares
from podium.worlds.context import Rebuild

__all__ = ["agentflow", "iterresearch_eapo", "mapo", "matchtir", "rlvmr", "srgpo"]


def _steps(name: str, n: int, *comparisons: Comparison, high: float = 0.2, kl: float = 0.0) -> Method:
    """A clipped surrogate on the tokens of each step, with an anchor where `kl` is above 0."""
    method = Method(
        name,
        rollout=Sample(n=n),
        advantage=Mixture(comparisons),
        objective=(PolicyGradient(clip=Clip(0.2, high)),),
    )
    return method if kl == 0 else method | KL("k3", coefficient=kl) | Role("ref")


@recipe(
    "mapo",
    summary="Half the return among rollouts at the same turn, half the immediate reward among all turns.",
    citation="Mixed Advantage Policy Optimization for Long-Horizon Multi-Turn Dialogue",
    family="turns",
)
def mapo(
    n: int = 8,
    gamma: float = 1.0,
    alpha: float = 0.5,
    beta: float = 0.5,
    immediate: str = "batch",
    kl: float = 0.001,
) -> Method:
    """A = alpha · z(returns; task, turn number) + beta · z(rewards; all turns of the batch), population std + 1e-8.

    `immediate="group"` compares the rewards within the task, as a later version of the paper does. A turn that one
    rollout alone reaches has no first part. alpha = 1, beta = 0 on single turns is GRPO with the population std.
    """
    if immediate not in ("batch", "group"):
        raise PodiumError(f"mapo: immediate = {immediate!r} is not one of batch, group.")
    population = Comparison(unbiased=False, epsilon=1e-8, singleton="zero")
    turn = population.replace(gamma=gamma, key=("group", "step.index"), share=alpha)
    now = population.replace(key=() if immediate == "batch" else ("group",), share=beta)
    return _steps("mapo", n, turn, now, kl=kl)


@recipe(
    "matchtir",
    summary="Tool calls matched one to one to a reference; whole rollouts and turns at the same place compared.",
    citation="MatchTIR: Fine-Grained Supervision for Tool-Integrated Reasoning via Bipartite Matching",
    family="turns",
    presets={"release": {"matching": "greedy"}, "transport": {"matching": "transport"}},
)
def matchtir(
    n: int = 16,
    gamma: float = 0.9,
    matching: str | None = "best",
    trajectory_scale: str = "std",
    kl: float = 0.001,
    entropy: float = 0.001,
) -> Method:
    """A = ½ z(Σ rewards; task) + ½ z(discounted returns; task, turn number), unbiased std; a turn or rollout without
    company keeps its raw value. The reward of a turn is how well its calls match the reference calls.

    The paper assigns calls for the largest total, the release takes the best pair first (`matchtir@release`).
    `matching=None` takes the world's rewards of turns. On rollouts of one turn it is GRPO.
    """
    whole = Comparison(of="rollout.reward", rows="rollout", share=0.5, scale=trajectory_scale)
    turn = Comparison(gamma=gamma, key=("group", "step.index"), share=0.5)
    method = _steps("matchtir", n, whole, turn, kl=kl) | Entropy(coefficient=entropy)
    return method if matching is None else method | MatchCalls(matching)


@recipe(
    "srgpo",
    summary="Whole rollouts compared within the task, verifiable rewards of steps within random blocks of the batch.",
    citation="SeeNav-Agent: Step Reward Group Policy Optimization, https://github.com/WzcTHU/SeeNav-Agent",
    family="turns",
)
def srgpo(
    n: int = 8,
    omega: float = 0.5,
    size: int = 16,
    among: tuple[str, ...] = (),
    scale: str = "std",
    kl: float = 0.01,
) -> Method:
    """A = N(outcome; rows of the task) + omega · N(reward of the step; random block of `size` steps).

    Blocks are drawn from the whole batch, or `among` the steps of a ("group",) or a ("rollout",). A block of one gives
    0. omega = 0 is GRPO in which a rollout counts once for each of its steps.
    """
    outcome = Comparison(of="rollout.reward", scale=scale)
    step = Comparison(key=(*among, "step.block"), share=omega, scale=scale, singleton="zero")
    return _steps("srgpo", n, outcome, step, kl=kl) | RandomBlocks(size, among)


@recipe(
    "rlvmr",
    summary="Steps say whether they plan, explore or reflect, are paid by rule, and compared with those of their tag.",
    citation="RLVMR: Reinforcement Learning with Verifiable Meta-Reasoning Rewards, https://arxiv.org/abs/2507.22844",
    family="turns",
    presets={"release": {"omega": 1.0}},
)
def rlvmr(n: int = 8, omega: float = 0.5, scale: str = "std", kl: float = 0.01) -> Method:
    """A = N(outcome; rows of the task) + omega · N(meta reward; task, tag); a step alone with its tag keeps its reward.

    The paper's ½ A_outcome + ½ A_meta is omega = 1 up to the factor ½, as in the released script (`rlvmr@release`).
    omega = 0 is GRPO in which a rollout counts once for each of its steps.
    """
    outcome = Comparison(of="rollout.reward", scale=scale)
    meta = Comparison(of="step.reward.meta", key=("group", "step.tag"), share=omega, scale=scale)
    return _steps("rlvmr", n, outcome, meta, kl=kl) | ReadTags() | MetaReasoning()


@recipe(
    "agentflow",
    summary="The outcome is the reward of every planner turn; each turn is trained after the memory it was written on.",
    citation="In-the-Flow Agentic System Optimization, https://github.com/lupantech/AgentFlow",
    family="turns",
    presets={"release": {}, "paper": {"rows": "rollout", "aggregate": "token mean, turn mean, rollout mean"}},
)
def agentflow(
    n: int = 8,
    rows: str = "step",
    aggregate: str = "token mean",
    longest: int = 18_432,
    kl: float = 0.001,
) -> Method:
    """A = (R − mean) / (std + 1e-6) over the rows of the task, on every turn of the rollout; clip [0.8, 1.3].

    The release counts each turn as a row and averages over tokens; `agentflow@paper` counts each rollout once and
    averages over tokens, turns, rollouts. Turns with a longer context than `longest` leave after the comparison.
    The world plays the executor. Rollouts of one turn: GRPO.
    """
    comparison = Comparison(of="rollout.reward", rows=rows)
    method = _steps("agentflow", n, comparison, high=0.3, kl=kl).with_(rollout=Sample(n=n, context=Rebuild()))
    for term in ("PolicyGradient", *(("KL",) if kl else ())):
        method = method.set(f"objective.{term}.aggregate", Aggregate(aggregate))
    return method | DropLongContexts(longest)


@recipe(
    "iterresearch-eapo",
    summary="Each round is a sample whose state is made anew; its reward is the outcome, discounted by rounds to go.",
    citation="IterResearch: Rethinking Long-Horizon Agents via Markovian State Reconstruction",
    family="turns",
)
def iterresearch_eapo(n: int = 8, gamma: float = 0.995, workers: int = 8, clip: float = 0.2) -> Method:
    """r_t = gamma^(T − t) · R; A = (r_t − mean) / (std + 1e-6) over all rounds of the task; one ratio a round, mean
    over rounds. The rounds are cut at random to a multiple of `workers`.

    A context holds the task, the last report and the last observation, however many rounds there were. gamma = 1 is
    GRPO in which a rollout counts once for each of its rounds.
    """
    return Method(
        "iterresearch-eapo",
        rollout=Sample(n=n, context=Rebuild(notes="report")),
        advantage=Mixture((Comparison(of="rollout.reward", gamma=gamma, singleton="zero"),)),
        shape=(WholeShares(workers),),
        objective=(PolicyGradient("turn", Clip(clip, clip), aggregate=Aggregate("token mean, turn mean")),),
    )
