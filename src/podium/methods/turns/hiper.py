"""TODO"""

from __future__ import annotations

from podium.method import Method, Role
from podium.methods.catalogue import recipe
from podium.parts.advantage import HierarchicalGAE
from podium.parts.annotate import PlanValues
from podium.parts.objective import KL, Clip, PlanValueLoss, PolicyGradient
from podium.parts.reward import PlanPenalties
from podium.parts.shape import PlanCredit
from podium.strategies import Sample

__all__ = ["hiper"]


@recipe(
    summary="Each turn keeps or switches its subgoal; actions are credited inside a subgoal, subgoals over them.",
    citation="HiPER: Hierarchical RL with Explicit Credit Assignment, https://github.com/JonP07/HiPER-agent",
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
        rollout=Sample(n=n),
        annotate=(PlanValues(),),
        reward=(PlanPenalties(keep, mode, invalid),),
        advantage=HierarchicalGAE(gamma, lam_turn, lam_stretch, bootstrap, normalize, reward="turn.reward.plan"),
        shape=(PlanCredit(),),
        objective=(
            PolicyGradient(clip=Clip(clip, clip), where=credited),
            KL("k3", coefficient=kl, where=credited),
            PlanValueLoss(),
        ),
        roles=(Role("critic", heads=3), Role("ref")),
    )
