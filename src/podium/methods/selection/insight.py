"""INSIGHT: data selection by weighted mutual information."""

from __future__ import annotations

from podium.core.errors import PodiumError
from podium.core.updates import Updates
from podium.memories import BetaBeliefs
from podium.method import Home, Method, Protocol
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.objective import Clip, PolicyGradient
from podium.parts.select import InformationGain, LeastKnown, Thompson
from podium.strategies import Sample

__all__ = ["insight"]


@recipe(
    summary="Data selection by mutual information: tasks whose rewards tell most about their success rate.",
    citation="INSIGHT: Efficient RLVR Training via Weighted Mutual Information Data Selection",
    tags=("data selection", "curriculum", "difficulty", "uncertainty", "information gain", "efficiency"),
    protocol=Protocol(
        model="Qwen3-0.6B and 4B; R1-Distill-7B",
        lr=1e-6,
        weight_decay=0.1,
        tasks=256,
        iterations=100,
        source="paper; the code that it links to is a general one",
    ),
    home=Home("sums", level=2),
    presets={
        "mopps": {"score": "thompson"},
        "difficulty": {"score": "difficulty"},
        "evidence": {"score": "evidence"},
        "random": {"pool": 1},
    },
)
def insight(
    n: int = 8,
    pool: int = 16,
    score: str = "information",
    eta: float = 3.0,
    mu: float = 0.3,
    discount: float = 1.0,
    clip: float = 0.2,
    mini_batches: int = 4,
) -> Method:
    """With a Beta(a, b) belief of mean p: p (1 − p) e^{−eta (p − mu)²} · I_n, where I_n is the mutual information
    between the next n outcomes and the success rate. Of `pool` random candidates for every place in the batch the best
    are sampled, n rollouts each; a and b count successes and failures. Then GRPO, without KL penalty.

    `insight@random` selects nothing, which is GRPO. The other presets are what the paper compares with: Thompson
    sampling of success rates closest to ½ (`mopps`), belief means closest to ½ (`difficulty`), and the fewest outcomes
    seen (`evidence`). The paper prints mu = 3.0 in one place; its ablation means 0.3. The 4 mini-batches are ours.

    Args:
        n: Rollouts per task (the group size).
        pool: Random candidates per place in the batch.
        score: What tasks are ranked by: `information`, `thompson`, `difficulty` or `evidence`.
        eta: How sharply the difficulty weight falls around mu.
        mu: Success rate around which tasks count most.
        discount: Decay of a task's counts per visit; below 1, old counts return to the prior.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
        mini_batches: Optimiser steps per batch.
    """
    scores = {
        "information": InformationGain(rollouts=n, eta=eta, mu=mu),
        "thompson": Thompson(),
        "difficulty": Thompson(draw="mean"),
        "evidence": LeastKnown(),
    }
    if score not in scores:
        raise PodiumError(f"insight: score = {score!r} is not one of {', '.join(scores)}.")
    return Method(
        select=scores[score].replace(pool=pool),
        rollout=Sample(n=n),
        advantage=Normalize(),
        objective=(PolicyGradient(clip=Clip(clip, clip)),),
        updates=Updates(mini_batches=mini_batches),
        memories=(BetaBeliefs(decay=discount, decay_rest=1.0),),
    )
