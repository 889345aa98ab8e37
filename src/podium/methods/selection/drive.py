"""TODO"""

from __future__ import annotations

from podium.core.errors import PodiumError
from podium.memories import Sweeps
from podium.method import Method, Phases
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.keep import DropMeasuring, DuplicateHard
from podium.parts.objective import Clip, Likelihood, PolicyGradient
from podium.parts.select import HardFocus
from podium.strategies import Draw, Sample

__all__ = ["drive"]


@recipe(
    summary="First many tasks with few rollouts, then ever fewer of the hardest with very many.",
    citation="DRIVE: Data Curation Best Practices for RLVR in Competitive Code Generation",
    presets={"method-section": {"n": 80}, "supervised": {"supervised": 2750}},
)
def drive(
    n: int = 64,
    first_n: int = 8,
    first: int = 32,
    short: float = 0.75,
    keep: tuple[int, ...] = (72, 50, 25),
    iterations: tuple[int, ...] = (64, 32, 32),
    pool: int = 175,
    supervised: int = 0,
    style: str = "short",
    clip: float = 0.2,
) -> Method:
    """`first` iterations of GRPO with 8 rollouts, which may be three quarters as long as later ones. Then before each
    phase the tasks of the one before are measured, n rollouts each, which are not trained; the `keep` with the lowest
    pass rates are trained for so many iterations. No task comes back.

    Tasks that are never solved stay in: of 64 rollouts at a rate of 2 % some succeed with probability 0.73, of 8 with
    0.15. The paper says 64 rollouts in one section and 80 in another. It begins with a distilled model: so many
    iterations `supervised` imitate the world's solutions first (`drive@supervised`: three passes over 470 000 tasks,
    512 at once), twice where none of 8 rollouts is right and not at all where all are, in place of its classifier of
    difficulty and its filter in five folds. One phase that keeps everything, with 8 rollouts and short = 1, is GRPO.
    """
    if len(keep) != len(iterations):
        raise PodiumError(f"drive: {len(keep)} sizes in keep for {len(iterations)} phases in iterations.")
    plain = Method(
        "broad",
        rollout=Sample(n=first_n, draw=Draw(token_share=short)),
        advantage=Normalize(),
        objective=(PolicyGradient(clip=Clip(clip, clip)),),
    )
    focus = plain.with_(
        name="focus",
        select=HardFocus(keep=keep, pool=pool),
        rollout=Sample(n=n),
        keep=(DropMeasuring(),),
        memories=(Sweeps(iterations=iterations),),
    )
    imitate = Method(
        "imitate",
        rollout=Sample(n=first_n, demonstrations=(style, style)),
        keep=(DuplicateHard(),),
        objective=(Likelihood(where="rollout.imitated"),),
    )
    before = [method.until(count) for method, count in ((imitate, supervised), (plain, first)) if count]
    return Phases(*before, focus)
