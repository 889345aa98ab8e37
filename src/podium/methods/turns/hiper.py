"""HiPER: hierarchical reinforcement learning with explicit credit assignment."""

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
    summary="Hierarchical credit assignment: GAE inside a subgoal for actions and over subgoals for plans.",
    citation="HiPER: Hierarchical RL with Explicit Credit Assignment, https://github.com/JonP07/HiPER-agent",
    tags=("hierarchical rl", "credit assignment", "critic", "planning", "agents", "multi-turn"),
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
    """Turns write `<switch>KEEP</switch><subgoal>…</subgoal><action>…</action>`. GAE inside a subgoal's segment for the
    action's tokens, GAE over segments for a new subgoal's tokens, and the return of the segment minus a value for the
    decision's tokens; each z-scored over the batch. A critic with three heads regresses on the three returns.

    Without a switch after the first turn the action's credit is GAE over turns. A turn without tags keeps its subgoal
    and is all action. The penalty for a kept subgoal whose words change is left out. The release compares switching and
    keeping by the simpler return used here, not by the paper's two values.

    Args:
        n: Rollouts per task (the group size).
        gamma: Discount factor per turn.
        lam_turn: GAE's λ between the turns of a segment.
        lam_stretch: GAE's λ between segments.
        keep: Reward added where a turn keeps its subgoal; negative: a penalty.
        mode: `normalized` spreads that reward over the turns of a rollout, `fixed` gives it in full at each.
        invalid: Penalty for a turn without a valid action.
        bootstrap: Whether a truncated rollout continues with its last value.
        normalize: Whether each of the three advantages is z-scored over the batch.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
        kl: Coefficient of the KL penalty (k3) to the reference.
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
