"""Many turns: critics of several time scales."""

from __future__ import annotations

from podium.advantage import HierarchicalGAE
from podium.core.method import Method, Role
from podium.core.schedule import Steps
from podium.keep import Transitions
from podium.methods.catalogue import recipe
from podium.objective import (
    KL,
    Aggregate,
    Clip,
    CriticFirst,
    PlanValueLoss,
    PlanValues,
    PolicyGradient,
    TokenBaseline,
    TokenBaselineLoss,
    TurnCritic,
    TurnCriticLoss,
    TurnQ,
    Updates,
)
from podium.reward import PlanPenalties
from podium.rollout import Sample
from podium.shape import PlanCredit

__all__ = ["archer", "hiper"]


@recipe(
    "hiper",
    summary="Each turn keeps or switches its subgoal; actions are credited inside a subgoal, subgoals over them.",
    citation="HiPER: Hierarchical RL with Explicit Credit Assignment, https://github.com/JonP07/HiPER-agent",
    family="turns",
)
def hiper(
    n: int = 8,
    gamma: float = 1.0,
    lam_turn: float = 1.0,
    lam_stretch: float = 0.95,
    keep: float = -0.3,
    mode: str = "normalized",
    invalid: float = 0.1,
    bootstrap: bool = False,
    normalize: bool = True,
    clip: float = 0.2,
    kl: float = 0.01,
) -> Method:
    """Turns write `<switch>KEEP</switch><subgoal>…</subgoal><action>…</action>`. GAE inside a subgoal's stretch for
    the action's tokens, GAE over stretches for a new subgoal's, and the return of the stretch minus a value for the
    decision's; each z-scored over the batch. A critic with three heads regresses on the three returns.

    Without a switch after the first turn the action's credit is GAE over turns. A turn without tags keeps its subgoal
    and is all action. The price of a kept subgoal whose words change is left out. The release compares switching and
    keeping by the simpler return used here, not by the paper's two values.
    """
    credited = "token.credited"
    return Method(
        "hiper",
        rollout=Sample(n=n),
        reward=(PlanPenalties(keep, mode, invalid), PlanValues()),
        advantage=HierarchicalGAE(gamma, lam_turn, lam_stretch, bootstrap, normalize, reward="turn.reward.plan"),
        shape=(PlanCredit(),),
        objective=(
            PolicyGradient(clip=Clip(clip, clip), where=credited),
            KL("k3", coefficient=kl, where=credited),
            PlanValueLoss(),
        ),
        roles=(Role("critic", heads=3), Role("ref")),
    )


@recipe(
    "archer",
    summary="A critic of whole turns learns by temporal differences; within a turn the policy follows its advantage.",
    citation="ArCHer: Training Language Model Agents via Hierarchical Multi-Turn RL, https://arxiv.org/abs/2402.19446",
    family="turns",
    presets={
        "token-baseline": {"token_baseline": True},
        "light": {"critic_epochs": 10, "warmup": 3, "memory": None},
    },
)
def archer(
    n: int = 4,
    gamma: float = 0.95,
    tau: float = 0.1,
    epochs: int = 3,
    critic_epochs: int | None = 50,
    critic_lr: float | None = None,
    warmup: int = 20,
    memory: int | None = 100_000,
    token_baseline: bool = False,
) -> Method:
    """Q_j ← r + gamma · V̄_j(next turn), V_j ← Q̄_j(this turn), j = 1, 2, by squared errors; the barred ones are a copy
    that follows by `tau` after each update. The policy's loss is −mean of A · Σ log π over the tokens of a turn, with
    A = min Q − min V; with `token_baseline` A − b_t, b a head that learns A.

    In each iteration the critic learns alone for `critic_epochs`, Q also from a `memory` of so many turns, V and the
    policy from the policy's own actions; then the policy joins for `epochs`. In the first `warmup` iterations it rests.
    A critic that lags behind makes the policy unlearn all it can: the authors let it learn at two to ten times the
    policy's rate (`critic_lr`; None: the run's). `archer@light` has no memory, ten epochs of the critic and three
    iterations of warm-up; with critic_epochs = None both learn together.
    The release acts anew from stored states, and its critic has an encoder of its own: here it has the policy's body.
    """
    fresh = None if memory is None else "group.fresh"
    actor = PolicyGradient("none", aggregate=Aggregate("token sum, turn mean"), where=fresh)
    return Method(
        "archer",
        rollout=Sample(n=n),
        reward=(TurnCritic(gamma),),
        advantage=TurnQ(),
        shape=(TokenBaseline(),) if token_baseline else (),
        objective=(
            actor.replace(coefficient=Steps((0.0, 1.0), (0, warmup))) if warmup else actor,
            TurnCriticLoss(None if memory is None else gamma),
            *((TokenBaselineLoss(where=fresh),) if token_baseline else ()),
        ),
        updates=Updates(epochs=epochs) if critic_epochs is None else CriticFirst(epochs, critic_epochs=critic_epochs),
        memories=() if memory is None else (Transitions(memory),),
        roles=(
            Role("critic", heads=5 if token_baseline else 4, lr=critic_lr),
            Role("target", source="critic", decay=1 - tau),
        ),
    )
