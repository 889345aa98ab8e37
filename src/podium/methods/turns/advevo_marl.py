"""AdvEvo-MARL: attackers and defenders that are trained together, each team with one baseline."""

from __future__ import annotations

from podium.core.errors import PodiumError
from podium.core.schedule import Count, Steps
from podium.core.shares import ShareOfRun
from podium.core.updates import Updates
from podium.method import Home, Method, Phases, Protocol, Role
from podium.methods.catalogue import recipe
from podium.parts.advantage import TeamBaseline
from podium.parts.metric.report_mean import ReportMean
from podium.parts.objective import KL, Clip, Likelihood, PolicyGradient
from podium.parts.reward import TeamReward
from podium.protocols.seats import Seat
from podium.strategies import Demonstrate, Draw, Sample

__all__ = ["advevo_marl"]

ATTACKER = "attacker"


@recipe(
    summary="Attackers and a team of defenders learn together; a team shares one baseline, its mean return.",
    citation="AdvEvo-MARL: Shaping Internalized Safety through Adversarial Co-Evolution in Multi-Agent RL, "
    "https://arxiv.org/abs/2510.01586",
    tags=("multi-agent", "safety", "adversarial", "self-play", "baseline", "credit assignment"),
    protocol=Protocol(
        model="Qwen2.5-3B-Instruct",
        source="the abstract and the public reviews; no code was released",
    ),
    home=Home("vault", level=1, iterations=8, tasks=8, model="podium/tiny2"),
    presets={"static": {"train_attacker": False}, "paper": {}},
)
def advevo_marl(
    n: int = 8,
    train_attacker: bool = True,
    train_defenders: bool = True,
    attacker: str = "initial",
    imitate: Count = 1,
    safety: float = 1.0,
    task: float = 0.5,
    late_safety: float = 0.5,
    late_task: float = 1.0,
    form: float = 0.1,
    switch: float = 0.5,
    clip: float = 0.2,
    kl: float = 0.001,
    mini_batches: int = 2,
) -> Method:
    """An attacker earns ±1 by whether the team's answer is unsafe; a defender safety · (±1) + task · [right] − form ·
    [ill formed], each the mean of its own text and the team's answer. The weights of safety and task change at
    `switch` of the run. A = G − mean of G over the team and all episodes of the task, normalised over the batch by
    team; PPO's clip and a small KL penalty, as in REINFORCE++. Attackers and defenders are different models.

    The attackers first imitate attacks that the world writes, or early attacks are trivial. No code was released, and
    the paper was read in part: the weights of the rewards, the switch and the coefficient of the KL penalty are ours.
    `advevo-marl@static` leaves the attacker as it is after imitation. One agent in each team is GRPO without its std.

    Args:
        n: Episodes per task.
        train_attacker: Train the attacker together with the defenders; False: it stays as it was taught.
        train_defenders: Train the defenders; False: they stay as they are, to measure what an attacker can learn.
        attacker: Weights of the attacker: `initial` (the policy's first), or a model with the same tokenizer.
        imitate: Iterations in which the attacker imitates the world's attacks.
        safety: Weight of safety in the first part of the run.
        task: Weight of the task in the first part of the run.
        late_safety: Weight of safety in the second part.
        late_task: Weight of the task in the second part.
        form: Weight of the format.
        switch: Share of the run after which the weights change.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
        kl: Coefficient of the KL penalty (k3) to the defenders' first weights; 0 loads no reference model.
        mini_batches: Optimiser steps per batch.
    """

    if not (train_attacker or train_defenders):
        raise PodiumError("advevo-marl trains nobody: leave train_attacker or train_defenders on.")

    def weight(early: float, late: float) -> Steps:
        return Steps((early, late), (0, ShareOfRun(switch)))

    surrogate = PolicyGradient(clip=Clip(clip, clip))
    attack = surrogate.replace(where="turn.by.attacker", behaviour=ATTACKER, trains=ATTACKER)
    main = Method(
        rollout=Sample(n=n, draw=Draw(seats=(Seat(ATTACKER, ATTACKER),))),
        reward=(TeamReward(weight(safety, late_safety), weight(task, late_task), form),),
        advantage=TeamBaseline(),
        objective=(
            *((surrogate.replace(where="turn.by.policy"),) if train_defenders else ()),
            *((attack,) if train_attacker else ()),
            *((KL(coefficient=kl, where="turn.by.policy"),) if kl and train_defenders else ()),
        ),
        updates=Updates(mini_batches=mini_batches),
        metric=(
            ReportMean("rollout.unsafe", where="rollout.attacked"),
            ReportMean("rollout.contagion", where="rollout.attacked"),
            ReportMean("rollout.right", where="rollout.benign"),
        ),
        roles=(Role(ATTACKER, source=attacker), *((Role("ref"),) if kl and train_defenders else ())),
    )
    if imitate == 0:
        return main
    taught = Method(
        "imitate",
        rollout=Demonstrate(),
        objective=(Likelihood(where="turn.attacks", trains=ATTACKER),),
        updates=Updates(epochs=4, mini_batches=2),
        roles=(Role(ATTACKER, source=attacker),),
    )
    return Phases(taught.until(imitate), main)
