"""SeeUPO: sequence-level sequential update policy optimisation."""

from __future__ import annotations

from podium.core.term import Aggregate
from podium.method import Home, Method, Role
from podium.methods._shared import ADAMW, clip_for
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.objective import KL, PolicyGradient
from podium.parts.reward import MagnifySuccess
from podium.parts.shape import Whiten
from podium.parts.updates import TurnByTurn
from podium.strategies import Draw, Sample

__all__ = ["seeupo"]


@recipe(
    summary="Updates turns one by one, last first, reweighted by how later turns changed (monotone improvement).",
    citation="SeeUPO: Sequence-Level Agentic-RL with Convergence Guarantees, "
    "https://github.com/modelscope/AgentEvolver",
    tags=("multi-turn", "agents", "sequence-level", "importance sampling", "trust region"),
    presets={"joint": {"carry": False}, "sequential": {"order": "sequential"}, "paper": {}},
    protocol=ADAMW.replace(
        model="Qwen3-14B",
        lr=1e-6,
        tasks=32,
        max_tokens=3000,
        max_turns=10,
        source="AgentEvolver branch seeupo, launcher/qwen3_appworld/qwen3-seeupo-appworld.yaml",
    ),
    home=Home("clarify", level=1, dials={"partial": True}, iterations=8, tasks=8),
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
    magnify: bool = True,
    mini_batches: int = 1,
) -> Method:
    """R = 1 + ½ score where the score is 1 or more, else ½ score; s = R − mean of the group, over its std in the batch,
    held within ±3; then for t = T, …, 1: an update of turn t alone with A = s · ρ and GSPO's sequence ratio, after
    which ρ ← clip(ρ · clip(e^d, 1 ± 0.2), 1 ± 0.2), with d the mean change of log π over the turn.

    With one turn per rollout it is GSPO with advantages scaled over the batch. `seeupo@joint` keeps ρ = 1. Each turn
    takes one optimiser step, as in the release, at which the ratio is 1 and a clip cannot act.

    Args:
        n: Rollouts per task (the group size).
        order: Order of the turns: `reverse` or `sequential`.
        ratio_clip: Clip of the carried weight ρ around 1.
        carry: Carry ρ from turn to turn; False: ρ = 1.
        batch_scale: Divide by the std of the batch.
        limit: Largest size of s in stds.
        clip: Clip range of the sequence ratio, [1 − clip, 1 + clip].
        kl: Coefficient of the KL penalty (k3) to the reference.
        temperature: Sampling temperature.
        magnify: Raise full success above partial credit; where scores are 0 or 1, this only changes their scale.
        mini_batches: Optimiser steps per turn; with several, the sequence ratio is clipped.
    """
    whiten = Whiten(level="rollout", epsilon=1e-6, epsilon_at="floor", zero_scale="skip", limit=limit, singleton="zero")
    sequence = Aggregate("token mean, rollout mean")
    return Method(
        rollout=Sample(n=n, draw=Draw(temperature=temperature)),
        reward=(MagnifySuccess(),) if magnify else (),
        advantage=Normalize(scale="none"),
        shape=(whiten,) if batch_scale else (),
        objective=(
            PolicyGradient("sequence", clip_for(mini_batches, clip, clip), aggregate=sequence),
            KL("k3", coefficient=kl, aggregate=sequence),
        ),
        updates=TurnByTurn(mini_batches=mini_batches, order=order, ratio_clip=ratio_clip, carry=carry),
        roles=(Role("ref"),),
    )
