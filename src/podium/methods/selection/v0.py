"""TODO"""

from __future__ import annotations

from podium.memories import BetaBeliefs, ScoreHistory
from podium.method import Method, Role
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.objective import Clip, PolicyGradient
from podium.strategies import Allocated

__all__ = ["v0"]


@recipe(
    summary="The number of rollouts of a task follows from its expected rate of success.",
    citation="V0: A Generalist Value Model for Any Policy at State Zero, https://github.com/Now-Join-Us/V0",
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
    """Σ_j U(B_j, p_j) is raised greedily, one rollout at a time, under Σ B = n a task and least ≤ B ≤ most;
    U = B (1 − p)(1 − (1 − p)^{B−1}), the failures beside a success, or `mixed`: 1 − p^B − (1 − p)^B. Then GRPO.

    p is what the value model in the directory `value` says, which reads the last `support` tasks with their scores and
    the task; `podium values RUN --out DIR` trains one on logged runs. Without one p is the mean of a Beta belief of the
    task's own history. The authors' model is an embedder with a table transformer and 256 scores in its context; ours
    is a small language model with a head. The first U is not concave and grows with B without end, so `most` matters.
    With least = most = n it is GRPO.
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
