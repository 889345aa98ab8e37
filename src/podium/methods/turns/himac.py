"""HiMAC: hierarchical macro-micro learning for long-horizon agents."""

from __future__ import annotations

from podium.core.schedule import Count
from podium.core.shares import ShareOfRun
from podium.core.updates import Updates
from podium.method import Alternate, Home, Method, Protocol, Role
from podium.methods._taught import taught
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.objective import KL, Clip, PolicyGradient
from podium.parts.shape import TrainSteps
from podium.protocols.blueprint import Blueprint
from podium.protocols.context import Context
from podium.strategies import Draw, SampleBlueprints

__all__ = ["himac"]


@recipe(
    summary="Hierarchical agent: one model writes a blueprint and executes it; the two roles train in alternation.",
    citation="HiMAC: Hierarchical Macro-Micro Learning for Long-Horizon LLM Agents",
    protocol=Protocol(
        model="Qwen2.5-1.5B-Instruct", max_turns=15, source="summaries of https://arxiv.org/abs/2603.00977"
    ),
    home=Home("keydoor", level=2, iterations=8),
    tags=("hierarchical rl", "planning", "agents", "multi-turn", "group-relative"),
    presets={"paper": {"imitate": 0}},
)
def himac(
    n: int = 8,
    imitate: Count = ShareOfRun(0.34),
    choice: str = "confident",
    ask: str = "Write a numbered plan.",
    show: str = "plan:\n{plan}\nnow: {subgoal}\n{observation}",
    done: str = "<sub_done>",
    context: Context | None = None,
    kl: float = 0.01,
    mini_batches: int = 4,
) -> Method:
    """Macro: n blueprints, each followed once; A = (R − mean) / (std + 1e-6) over them, on blueprint tokens alone.
    Micro: n rollouts that follow the blueprint the model is most confident in; the same over them, on action tokens
    alone.

    A turn that writes the marker `done` beside an action that the world accepts moves on to the next subgoal. It
    begins with imitation of demonstrations of this kind, whose end is the reference of the KL penalty; whether the
    authors' model needed one is not known. A group of one gets 0. Micro phases alone, with an empty blueprint, are
    GRPO.

    Args:
        n: Blueprints per task in a macro phase, rollouts per task in a micro phase.
        imitate: Iterations that imitate blueprints and the world's solutions, before everything else; 0: none.
        choice: Which blueprint the micro phase follows: `confident` or `first`.
        ask: Instruction below the task that asks for a blueprint.
        show: Template of what a turn sees, with {plan}, {subgoal} and {observation}.
        done: What the model writes when a subgoal is reached.
        context: How much of the history each turn sees; None: the world's default.
        kl: Coefficient of the KL penalty (k3) to the reference; 0 loads no reference model.
        mini_batches: Optimiser steps per batch; the authors' number is not known.
    """

    def phase(name: str) -> Method:
        method = Method(
            f"himac {name}",
            rollout=SampleBlueprints(n, name, choice, done, ask, show, Draw(context=context)),
            advantage=Normalize(singleton="zero"),
            shape=(TrainSteps("first"),) if name == "macro" else (),
            objective=(PolicyGradient(clip=Clip(0.2, 0.2)),),
            updates=Updates(mini_batches=mini_batches),
        )
        return method if kl == 0 else method | KL("k3", coefficient=kl) | Role("ref", source="phase")

    draw = Draw(context=context, format=Blueprint(plan=ask, show=show, done=done))
    return taught(Alternate(phase("macro"), phase("micro")), imitate, draw)
