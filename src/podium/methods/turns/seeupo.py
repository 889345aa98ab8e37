"""TODO"""

from __future__ import annotations

from podium.core.term import Aggregate
from podium.method import Method, Role
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.objective import KL, Clip, PolicyGradient
from podium.parts.shape import Whiten
from podium.parts.updates import TurnByTurn
from podium.strategies import Draw, Sample

__all__ = ["seeupo"]


@recipe(
    summary="Turns are updated one after another, the last first; each weighs by what the later ones have become.",
    citation="SeeUPO: Sequence-Level Agentic-RL with Convergence Guarantees, "
    "https://github.com/modelscope/AgentEvolver",
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
        rollout=Sample(n=n, draw=Draw(temperature=temperature)),
        advantage=Normalize(scale="none"),
        shape=(whiten,) if batch_scale else (),
        objective=(
            PolicyGradient("sequence", Clip(clip, clip), aggregate=sequence),
            KL("k3", coefficient=kl, aggregate=sequence),
        ),
        updates=TurnByTurn(order=order, ratio_clip=ratio_clip, carry=carry),
        roles=(Role("ref"),),
    )
