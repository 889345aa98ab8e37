"""READ: reinforced advantage feedback for several agents that a language model plans for."""

from __future__ import annotations

from podium.core.schedule import Count
from podium.core.updates import Updates
from podium.method import Home, Method, Phases, Protocol, Role
from podium.methods._taught import taught
from podium.methods.catalogue import recipe
from podium.parts.advantage import PrefixCredit
from podium.parts.metric.report_mean import ReportMean
from podium.parts.objective import Likelihood, PrefixValueLoss
from podium.parts.shape import AdvantageWeights
from podium.strategies import AdvantageFilter, Draw

__all__ = ["read"]

OFFLINE = {"warmup": 0, "epochs": 1, "mini_batches": 1}
IMITATION = 5e-3  # learning rate of imitation beside the critic's 1e-3
TOLD = "{action} was refused: its advantage is {score:.2f}"


@recipe(
    summary="A critic of joint actions refuses bad ones before several agents take them; they are asked for again.",
    citation="Towards Efficient LLM Grounding for Embodied Multi-Agent Collaboration, https://arxiv.org/abs/2405.14314",
    tags=("multi-agent", "critic", "credit assignment", "planning", "multi-turn", "agents"),
    protocol=Protocol(
        model="GPT-4-Turbo, not trained",
        lr=1e-3,
        max_turns=45,
        source="the paper, version 2: learning rate of the critic; 15 rounds of at most three robots",
    ),
    home=Home("carry", level=1, dials={"boxes": 1, "rounds": 18}, iterations=12, tasks=12, model="podium/tiny2"),
    presets={
        "joint": {"mode": "J"},
        "filter": {"train_policy": False},
        "paper": {"imitate": 0, "train_policy": False, "tries": 15, "told": TOLD, **OFFLINE},
    },
)
def read(
    n: int = 3,
    mode: str = "S",
    tries: int = 3,
    threshold: float = 0.0,
    gamma: float = 0.97,
    temperature: float = 1.0,
    most: float = 20.0,
    told: str = "",
    train_policy: bool = True,
    warmup: int = 3,
    epochs: int = 4,
    mini_batches: int = 4,
    lr_ratio: float = 10.0,
    imitate: Count = 6,
) -> Method:
    """A^i = Q(s, a^1 … a^i) − Q(s, a^1 … a^(i−1)) for agent i of a round, Q a critic that learns (Q − R)² on the team's
    discounted return R, for every prefix of the joint action. An action with A^i ≤ threshold is asked for again, at
    most `tries` times, then the best is taken. In J mode the whole joint action is judged, by Q(s, a) − Q(s, wait) /
    gamma. The policy learns by advantage-weighted regression, −min(exp(A / temperature), most) · log π.

    The authors train the critic alone, on plans that they have logged, and never the language model: `read@filter`
    leaves the policy's weights as they are, and so does `read@paper`. There, refused actions stand in the prompt of
    the next try with their scores; podium/tiny2 does not know what they mean, so by default it is only asked again.
    Their critic is a network of one hidden layer on frozen text features and the simulator's state; here it has the
    policy's architecture and reads what the agent sees. gamma is not in the text that we read. Temperature → ∞ is
    imitation of what was done; one agent has A = Q(s, a) − V(s).

    Args:
        n: Rollouts per task.
        mode: `S` judges agent by agent, `J` the actions of all agents of a round together.
        tries: Proposals for an action, at most.
        threshold: What a score must exceed: doubled when a round begins, halved after each proposal.
        gamma: Discount factor per round.
        temperature: Temperature of the weights exp(A / temperature).
        most: The largest weight.
        told: What the next try is told of a refused action, with {action} and {score}; empty: nothing.
        train_policy: Train the policy; False: the critic alone, which filters what the policy proposes.
        warmup: Iterations in which the critic learns and nothing is refused yet.
        epochs: Passes over each batch.
        mini_batches: Optimiser steps per pass.
        lr_ratio: How many times the policy's learning rate the critic has.
        imitate: Iterations that imitate the world's solutions first; 0: none, for a model that can plan.
    """
    filtering = AdvantageFilter(n, mode, tries, threshold, gamma, told=told)
    critic = Method(
        "critic",
        rollout=filtering.replace(tries=1),
        objective=(PrefixValueLoss(gamma),),
        updates=Updates(epochs=epochs, mini_batches=mini_batches),
        metric=(ReportMean("rollout.queries"), ReportMean("rollout.rounds"), ReportMean("turn.score")),
        roles=(Role("critic", lr_ratio=lr_ratio),),
    )
    method = critic.with_(rollout=filtering, advantage=PrefixCredit()).replace(name="")
    if train_policy:
        terms = (Likelihood(weight="turn.awr"), *method.objective)
        method = method.with_(shape=(AdvantageWeights(temperature, most),), objective=terms)
    return taught(Phases(critic.until(warmup), method) if warmup else method, imitate, Draw(), lr=IMITATION)
