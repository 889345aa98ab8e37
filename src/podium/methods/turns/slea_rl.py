"""SLEA-RL: step-level experience-augmented reinforcement learning."""

from __future__ import annotations

from podium.memories.lesson_library import LessonLibrary
from podium.method import Method, Role
from podium.methods.catalogue import recipe
from podium.parts.advantage import GroupInGroup
from podium.parts.objective import KL, Clip, PolicyGradient
from podium.strategies import Sample
from podium.strategies.sample.lessons import SampleAdvised

__all__ = ["slea_rl"]


@recipe(
    summary="Retrieves lessons from past rollouts at each step (experience library); GiGPO's credit assignment.",
    citation="SLEA-RL: Step-Level Experience Augmented RL, https://github.com/kingofspace0wzz/slea-rl",
    tags=("experience library", "agents", "multi-turn", "step-level", "credit assignment"),
)
def slea_rl(
    n: int = 8,
    gamma: float = 0.95,
    omega: float = 1.0,
    scale: str = "none",
    similarity: float | None = None,
    library: LessonLibrary | None = LessonLibrary(),
    kl: float = 0.01,
) -> Method:
    """A = A_episode + omega · A_step as in `gigpo`, on prompts that show at most two lessons and one warning.

    `library=None` is GiGPO exactly. The library grows by rules from the best successes and the worst failures, never by
    gradients; in a full level a lesson with a higher score replaces the one with the lowest.

    Args:
        n: Rollouts per task (the group size).
        gamma: Discount factor per step.
        omega: Weight of the step-level advantage.
        scale: `std` divides both advantages by their std, `none` does not.
        similarity: Least share of matching characters at which two states count as the same; None: equal states.
        library: The memory of lessons; None: no lessons.
        kl: Coefficient of the KL penalty (k3) to the reference; 0 loads no reference model.
    """
    method = Method(
        rollout=Sample(n=n) if library is None else SampleAdvised(n=n),
        advantage=GroupInGroup(gamma=gamma, omega=omega, scale=scale, similarity=similarity),
        objective=(PolicyGradient(clip=Clip(0.2, 0.2)),),
        memories=() if library is None else (library,),
    )
    return method if kl == 0 else method | KL("k3", coefficient=kl) | Role("ref")
