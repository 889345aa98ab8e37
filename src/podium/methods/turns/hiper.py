"""HiPER: hierarchical reinforcement learning with explicit credit assignment."""

from __future__ import annotations

from podium.core.schedule import Count
from podium.core.shares import ShareOfRun
from podium.core.updates import Updates
from podium.method import Home, Method, Role
from podium.methods._shared import ADAMW
from podium.methods._taught import taught
from podium.methods.catalogue import recipe
from podium.parts.advantage import HierarchicalGAE
from podium.parts.annotate import PlanValues
from podium.parts.objective import KL, Clip, Entropy, PlanValueLoss, PolicyGradient
from podium.parts.reward import PlanPenalties
from podium.parts.shape import PlanCredit
from podium.protocols.tagged import PlanTags
from podium.strategies import Draw, Sample

__all__ = ["hiper"]


@recipe(
    summary="Hierarchical credit assignment: GAE inside a subgoal for actions and over subgoals for plans.",
    citation="HiPER: Hierarchical RL with Explicit Credit Assignment, https://github.com/JonP07/HiPER-agent",
    protocol=ADAMW.replace(
        model="Qwen2.5-1.5B-Instruct",
        lr=1e-6,
        tasks=128,
        iterations=150,
        max_tokens=512,
        max_turns=50,
        source="https://github.com/JonP07/HiPER-agent, example_scripts/HiPER_trainer/run_alfworld.sh",
    ),
    home=Home("keydoor", level=1, iterations=10),
    tags=("hierarchical rl", "credit assignment", "critic", "planning", "agents", "multi-turn"),
    presets={"paper": {"imitate": 0, "mini_batches": 25}, "webshop": {"keep": -3.5, "bootstrap": False}},
)
def hiper(
    n: int = 1,
    imitate: Count = ShareOfRun(0.34),
    gamma: float = 1.0,
    lam_turn: float = 1.0,
    lam_stretch: float = 0.95,
    success: float = 10.0,
    keep: float = -0.3,
    mode: str = "normalized",
    reworded: float = -0.3,
    invalid: float = 0.1,
    bootstrap: bool = True,
    normalize: bool = True,
    mini_batches: int = 4,
    clip: float = 0.2,
    kl: float = 0.01,
    entropy: float = 0.001,
) -> Method:
    """Turns write `<switch>KEEP</switch><subgoal>…</subgoal><action>…</action>`. GAE inside a subgoal's segment for the
    action's tokens, GAE over segments for a new subgoal's tokens, and the return of the segment minus a value for the
    decision's tokens; each z-scored over the batch. A critic with three heads, which learns ten times as fast as the
    policy, regresses on the three returns.

    Without a switch after the first turn the action's credit is GAE over turns. A turn without tags keeps its subgoal
    and is all action. The release compares switching and keeping by the simpler return used here, not by the paper's
    two values. Its model follows the format from the first iteration, so it has no stage of imitation; a small model
    is taught the format first (`imitate`). Penalties are set off against a success worth 10.

    Args:
        n: Rollouts per task: a critic needs no group.
        imitate: Iterations that imitate the world's solutions in this format, before everything else; 0: none.
        gamma: Discount factor per turn.
        lam_turn: GAE's λ between the turns of a segment.
        lam_stretch: GAE's λ between segments.
        success: Factor of the world's reward: what a success is worth.
        keep: Reward added where a turn keeps its subgoal; negative: a penalty.
        mode: `normalized` spreads that reward over the turns of a rollout, `fixed` gives it in full at each.
        reworded: Reward added where a turn keeps its subgoal in other words; negative: a penalty.
        invalid: Penalty for a turn without a valid action.
        bootstrap: Whether a truncated rollout continues with its last value.
        normalize: Whether each of the three advantages is z-scored over the batch.
        mini_batches: Optimiser steps per batch.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
        kl: Coefficient of the KL penalty (k3) to the reference, which is the policy after the imitation.
        entropy: Coefficient of the entropy bonus.
    """
    credited, draw = "token.credited", Draw(format=PlanTags())
    method = Method(
        rollout=Sample(n=n, draw=draw),
        annotate=(PlanValues(),),
        reward=(PlanPenalties(keep, mode, invalid, reworded, success),),
        advantage=HierarchicalGAE(gamma, lam_turn, lam_stretch, bootstrap, normalize, reward="turn.reward.plan"),
        shape=(PlanCredit(),),
        objective=(
            PolicyGradient(clip=Clip(clip, clip), where=credited),
            KL("k3", coefficient=kl, where=credited),
            Entropy(coefficient=entropy, where=credited),
            PlanValueLoss(),
        ),
        updates=Updates(mini_batches=mini_batches),
        roles=(Role("critic", heads=3, lr_ratio=10), Role("ref", source="phase")),
    )
    return taught(method, imitate, draw)
