"""TODO"""

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
    summary="Lessons of earlier rollouts are shown at the states they fit; credit as in GiGPO.",
    citation="SLEA-RL: Step-Level Experience Augmented RL, https://github.com/kingofspace0wzz/slea-rl",
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

    The library grows by rules from the best successes and the worst failures, never by gradients; a full level gives
    up its lowest score to a higher one. `library=None` is GiGPO bit for bit.
    """
    method = Method(
        rollout=Sample(n=n) if library is None else SampleAdvised(n=n),
        advantage=GroupInGroup(gamma=gamma, omega=omega, scale=scale, similarity=similarity),
        objective=(PolicyGradient(clip=Clip(0.2, 0.2)),),
        memories=() if library is None else (library,),
    )
    return method if kl == 0 else method | KL("k3", coefficient=kl) | Role("ref")
