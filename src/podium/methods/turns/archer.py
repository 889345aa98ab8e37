"""ArCHer: hierarchical multi-turn reinforcement learning with an utterance-level critic."""

from __future__ import annotations

from podium.core.schedule import Steps
from podium.core.term import Aggregate
from podium.core.updates import Updates
from podium.memories import Transitions
from podium.method import Home, Method, Protocol, Role
from podium.methods.catalogue import recipe
from podium.parts.advantage import TurnQ
from podium.parts.annotate import TurnCritic
from podium.parts.objective import PolicyGradient, TokenBaselineLoss, TurnCriticLoss
from podium.parts.shape import LatestTurnQ, TokenBaseline
from podium.parts.updates import CriticFirst
from podium.strategies import Sample, SampleAndRevisit

__all__ = ["archer"]


@recipe(
    summary="Hierarchical actor-critic: an off-policy turn-level critic (double Q and V), token policy gradient.",
    citation="ArCHer: Training Language Model Agents via Hierarchical Multi-Turn RL, https://arxiv.org/abs/2402.19446",
    tags=("hierarchical rl", "critic", "off-policy", "multi-turn", "agents", "credit assignment"),
    presets={
        "token-baseline": {"token_baseline": True},
        "light": {"critic_epochs": 10, "memory": None},
        "paper": {"n": 1, "critic_epochs": 50, "warmup": 20, "revisits": 1},
    },
    protocol=Protocol(
        model="GPT-2 after behaviour cloning",
        lr=1e-6,
        betas=(0.9, 0.999),
        weight_decay=0.0,
        warmup=0,
        schedule="constant",
        clip=1.0,
        tasks=128,
        iterations=2000,
        max_tokens=32,
        max_turns=20,
        source="ArCHer scripts/config/archer_20q.yaml, archer/algorithms/archer/trainer.py",
    ),
    home=Home("keydoor", level=1, iterations=6, tasks=4),
)
def archer(
    n: int = 4,
    gamma: float = 0.95,
    tau: float = 0.1,
    epochs: int = 3,
    critic_epochs: int | None = 50,
    critic_lr: float | None = None,
    lr_ratio: float = 20.0,
    warmup: int = 1,
    memory: int | None = 100_000,
    revisits: int = 4,
    token_baseline: bool = False,
) -> Method:
    """Q_j ← r + gamma · V̄_j(next turn), V_j ← Q̄_j(this turn), j = 1, 2, by squared errors; the barred networks are a
    target copy that follows by `tau` after each update. The policy's loss is −mean of A · Σ log π over the tokens of a
    turn, with A = min Q − min V; with `token_baseline` A − b_t, b a head that learns A.

    In each iteration the critic learns alone for `critic_epochs`, Q also from the replay memory, V and the policy from
    the policy's own actions, those that it writes at `revisits` stored states per task among them; then the policy is
    trained for `epochs` on the critic as it is by then. It is not trained in the first `warmup` iterations: 1 % of the
    authors' run, and one iteration here. A critic that lags behind makes the policy unlearn what it can do: the authors
    train the critic at two to twenty times the policy's learning rate. `archer@light` has no replay memory and ten
    epochs of the critic. The release draws all actions of the policy's updates anew at stored states, and its critic
    has an encoder of its own; here the policy also learns from the actions that it has played, and the critic has the
    policy's architecture. With `critic_epochs=None` both are trained together, on the values of before.

    Args:
        n: Rollouts per task (the group size).
        gamma: Discount factor per turn.
        tau: Rate at which the target critic follows, per update.
        epochs: Passes over each batch in which the policy is trained.
        critic_epochs: Passes in which the critic alone is trained first; None: critic and policy are trained together.
        critic_lr: Learning rate of the critic; None: that of the policy times `lr_ratio`.
        lr_ratio: How many times the policy's learning rate the critic has: 20 in Twenty Questions, 2 in other games.
        warmup: Iterations in which only the critic is trained.
        memory: Turns in the replay memory of the critic; None: no replay.
        revisits: Stored states per task at which the policy acts anew; 0: it learns from what it has played alone.
        token_baseline: Subtract a learned token-level baseline within a turn.
    """
    fresh, latest = None if memory is None else "group.fresh", critic_epochs is not None
    revisits = 0 if memory is None else revisits
    baseline = (TokenBaseline(latest),) if token_baseline else ()
    actor = PolicyGradient("none", aggregate=Aggregate("token sum, turn mean"), where=fresh)
    return Method(
        rollout=SampleAndRevisit(n=n) if revisits else Sample(n=n),
        annotate=(TurnCritic(gamma),),
        advantage=TurnQ(),
        shape=((LatestTurnQ(),) if latest else ()) + baseline,
        objective=(
            actor.replace(coefficient=Steps((0.0, 1.0), (0, warmup))) if warmup else actor,
            TurnCriticLoss(
                gamma if latest or memory is not None else None,
                latest,
                replayed=memory is not None,
                revisited=revisits > 0,
            ),
            *((TokenBaselineLoss(where=fresh),) if token_baseline else ()),
        ),
        updates=Updates(epochs=epochs) if critic_epochs is None else CriticFirst(epochs, critic_epochs=critic_epochs),
        memories=() if memory is None else (Transitions(memory, revisits=revisits),),
        roles=(
            Role("critic", heads=5 if token_baseline else 4, lr=critic_lr, lr_ratio=lr_ratio),
            Role("target", source="critic", decay=1 - tau),
        ),
    )
