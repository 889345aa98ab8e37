"""V0: a generalist value model that allocates rollouts."""

from __future__ import annotations

from podium.core.errors import PodiumError
from podium.core.memory import Memory
from podium.core.updates import Updates
from podium.memories import BetaBeliefs, ScoreHistory, SimilarScores
from podium.method import Home, Method, Protocol, Role
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.objective import Clip, PolicyGradient
from podium.strategies import Allocated

__all__ = ["v0"]


@recipe(
    summary="Allocates the rollout budget by predicted success rates from a generalist value model.",
    citation="V0: A Generalist Value Model for Any Policy at State Zero, https://github.com/Now-Join-Us/V0",
    tags=("rollout budget", "value function", "difficulty", "efficiency"),
    protocol=Protocol(
        source="Now-Join-Us/V0 main_train.sh trains the value model alone; of the policy's run nothing is given"
    ),
    home=Home("sums", level=3),
    presets={"mixed": {"utility": "mixed"}, "beliefs": {"predictor": "beliefs"}},
)
def v0(
    n: int = 8,
    least: int = 2,
    most: int = 16,
    utility: str = "failures",
    value: str | None = None,
    predictor: str = "similar",
    support: int = 256,
    clip: float = 0.2,
    mini_batches: int = 4,
) -> Method:
    """Σ_j U(B_j, p_j) is maximised greedily, one rollout at a time, with n rollouts per task on average and least ≤ B ≤
    most; U = B (1 − p)(1 − (1 − p)^{B−1}), the expected failures in a group with a success, or `mixed`: 1 − p^B − (1 −
    p)^B. Then GRPO.

    With least = most = n it is GRPO. p is what a value model reads from the last `support` scored prompts and the
    prompt in question. The authors' model is an embedder with a table transformer and 256 scores in its context; their
    weights are not ours to ship. `value` names a model that `podium values RUN --out DIR` has trained on logged runs, a
    small language model with a head. Without one, p is a mean of those scores by the similarity of the prompts: it
    reads the same context and is not trained. `v0@beliefs` knows a task by its own history alone. The first U is not
    concave and grows with B without bound, so `most` matters. The 4 mini-batches are ours.

    Args:
        n: Rollouts per task on average.
        least: Rollouts per task at least.
        most: Rollouts per task at most.
        utility: `failures` (expected failures in a group with a success) or `mixed` (probability of a mixed group).
        value: Directory of a value model, which reads the last `support` tasks with their scores and the task; None:
            the `predictor`.
        predictor: Without a value model, `similar`: p from the scores of similar prompts; `beliefs`: the mean of a Beta
            belief from the task's own history.
        support: Scored prompts that are read; as many as a value model was trained with.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
        mini_batches: Optimiser steps per batch.
    """
    if predictor not in ("similar", "beliefs"):
        raise PodiumError(f"v0: predictor = {predictor!r} is not 'similar' or 'beliefs'.")
    known = value is not None or predictor == "similar"
    memory: Memory = BetaBeliefs(decay=0.5, decay_rest=1.0)
    if known:
        memory = ScoreHistory(reader="value", support=support) if value else SimilarScores(support=support)
    rate = "group.value" if known else "group.belief.mean"
    return Method(
        rollout=Allocated(n=n, least=min(least, n), most=max(most, n), utility=utility, rate=rate),
        advantage=Normalize(),
        objective=(PolicyGradient(clip=Clip(clip, clip)),),
        updates=Updates(mini_batches=mini_batches),
        memories=(memory,),
        roles=(Role("value", source=value),) if value else (),
    )
