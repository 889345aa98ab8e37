"""V0: a generalist value model that allocates rollouts."""

from __future__ import annotations

from podium.memories import BetaBeliefs, ScoreHistory
from podium.method import Method, Role
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.objective import Clip, PolicyGradient
from podium.strategies import Allocated

__all__ = ["v0"]


@recipe(
    summary="Allocates the rollout budget by predicted success rates from a generalist value model.",
    citation="V0: A Generalist Value Model for Any Policy at State Zero, https://github.com/Now-Join-Us/V0",
    tags=("rollout budget", "value function", "difficulty", "efficiency"),
    presets={"mixed": {"utility": "mixed"}},
)
def v0(
    n: int = 8,
    least: int = 2,
    most: int = 16,
    utility: str = "failures",
    value: str | None = None,
    support: int = 8,
    clip: float = 0.2,
) -> Method:
    """Σ_j U(B_j, p_j) is maximised greedily, one rollout at a time, with n rollouts per task on average and least ≤ B ≤
    most; U = B (1 − p)(1 − (1 − p)^{B−1}), the expected failures in a group with a success, or `mixed`: 1 − p^B − (1 −
    p)^B. Then GRPO.

    With least = most = n it is GRPO. `podium values RUN --out DIR` trains a value model on logged runs. The authors'
    model is an embedder with a table transformer and 256 scores in its context; ours is a small language model with a
    head. The first U is not concave and grows with B without bound, so `most` matters.

    Args:
        n: Rollouts per task on average.
        least: Rollouts per task at least.
        most: Rollouts per task at most.
        utility: `failures` (expected failures in a group with a success) or `mixed` (probability of a mixed group).
        value: Directory of a value model, which reads the last `support` tasks with their scores and the task; None: p
            is the mean of a Beta belief from the task's own history.
        support: Scored tasks that the value model reads.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
    """
    memory = ScoreHistory(reader="value", support=support) if value else BetaBeliefs(decay=0.5, decay_rest=1.0)
    rate = "group.value" if value else "group.belief.mean"
    return Method(
        rollout=Allocated(n=n, least=min(least, n), most=max(most, n), utility=utility, rate=rate),
        advantage=Normalize(),
        objective=(PolicyGradient(clip=Clip(clip, clip)),),
        memories=(memory,),
        roles=(Role("value", source=value),) if value else (),
    )
