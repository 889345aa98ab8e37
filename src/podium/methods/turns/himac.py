"""TODO"""

from __future__ import annotations

from podium.method import Alternate, Method, Role
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.objective import KL, Clip, PolicyGradient
from podium.parts.shape import TrainSteps
from podium.protocols.context import Context
from podium.strategies import Draw, SampleBlueprints

__all__ = ["himac"]


@recipe(
    summary="One model writes a blueprint and follows it; the two are trained in alternating phases.",
    citation="HiMAC: Hierarchical Macro-Micro Learning for Long-Horizon LLM Agents",
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
            rollout=SampleBlueprints(n=n, phase=name, choice=choice, ask=ask, show=show, draw=Draw(context=context)),
            advantage=Normalize(singleton="zero"),
            shape=(TrainSteps("first"),) if name == "macro" else (),
            objective=(PolicyGradient(clip=Clip(0.2, 0.2)),),
        )
        return method if kl == 0 else method | KL("k3", coefficient=kl) | Role("ref")

    return Alternate(phase("macro"), phase("micro"))
