"""Many turns: ratios of whole turns, and turns updated one after another."""

from __future__ import annotations

from podium.advantage import GAE, Normalize
from podium.core.method import Method, Role
from podium.methods.catalogue import recipe
from podium.objective import KL, Aggregate, Clip, PolicyGradient, TurnByTurn, Updates, ValueLoss
from podium.objective.surrogate import Bounds
from podium.reward import TokenReward
from podium.rollout import Sample
from podium.shape import DampClipped, Whiten

__all__ = ["seeupo", "st_ppo"]


@recipe(
    "st-ppo",
    summary="PPO with one ratio a turn, and smaller steps the more of the gradient clipping takes away.",
    citation="ST-PPO: Stabilized Off-Policy Proximal Policy Optimization for Multi-Turn Agents Training",
    family="turns",
    presets={"turn-ppo": {"floor": None}, "s-ppo": {"ratio": "token"}, "literal": {"floor": 1e-8}},
)
def st_ppo(
    n: int = 4,
    ratio: str = "turn",
    floor: float | None = 1.0,
    gamma: float = 1.0,
    lam: float = 1.0,
    clip: float = 0.2,
    kl: float = 0.001,
    mini_batches: int = 2,
) -> Method:
    """−min(w·A_t, clip(w, 1 ± 0.2)·A_t) / max(c, floor), with w the geometric mean of the ratios of a turn's tokens, A
    from GAE, and c the norm of what clipping removes: c² = Σ over clipped tokens of (w·A_t/(|y|·B))².

    `st-ppo@turn-ppo` has no division, `st-ppo@s-ppo` the ratios of tokens; both together are PPO. On the first of
    several updates nothing is clipped. The paper divides by the norm of the clipped part of the gradient; c stands for
    it without a second backward pass. A floor of 1 never makes a step larger, `st-ppo@literal` may. gamma, lam and the
    two mini-batches are assumptions.
    """
    sequence = Aggregate("token mean, rollout mean")
    surrogate = PolicyGradient(ratio, Clip(clip, clip), shared=ratio != "token", aggregate=sequence)
    return Method(
        "st-ppo",
        rollout=Sample(n=n),
        reward=(TokenReward(),),
        advantage=GAE(gamma=gamma, lam=lam),
        shape=() if floor is None else (DampClipped(ratio, Bounds(clip, clip), floor),),
        objective=(surrogate, KL("k3", coefficient=kl), ValueLoss()),
        updates=Updates(mini_batches=mini_batches, unit="rollout"),
        roles=(Role("critic"), Role("ref")),
    )


@recipe(
    "seeupo",
    summary="Turns are updated one after another, the last first; each weighs by what the later ones have become.",
    citation="SeeUPO: Sequence-Level Agentic-RL with Convergence Guarantees, "
    "https://github.com/modelscope/AgentEvolver",
    family="turns",
    presets={"joint": {"carry": False}, "sequential": {"order": "sequential"}},
)
def seeupo(
    n: int = 8,
    order: str = "reverse",
    ratio_clip: float = 0.2,
    carry: bool = True,
    batch_scale: bool = True,
    limit: float = 3.0,
    clip: float = 0.2,
    kl: float = 0.002,
    temperature: float = 0.9,
) -> Method:
    """s = R − mean of the group, over its std in the batch, held within ±3; then for t = T, …, 1: an update of turn t
    alone with A = s · ρ and GSPO's sequence ratio, after which ρ ← clip(ρ · clip(e^d, 1 ± 0.2), 1 ± 0.2), with d the
    mean change of log π over the turn.

    With one turn a rollout it is GSPO with advantages scaled over the batch. `seeupo@joint` keeps ρ = 1.
    """
    whiten = Whiten(level="rollout", epsilon=1e-6, epsilon_at="floor", zero_scale="skip", limit=limit, singleton="zero")
    sequence = Aggregate("token mean, rollout mean")
    return Method(
        "seeupo",
        rollout=Sample(n=n, temperature=temperature),
        advantage=Normalize(scale="none"),
        shape=(whiten,) if batch_scale else (),
        objective=(
            PolicyGradient("sequence", Clip(clip, clip), aggregate=sequence),
            KL("k3", coefficient=kl, aggregate=sequence),
        ),
        updates=TurnByTurn(order=order, ratio_clip=ratio_clip, carry=carry),
        roles=(Role("ref"),),
    )
