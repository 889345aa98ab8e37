"""V0.5: a generalist value model as a prior for sparse rollouts."""

from __future__ import annotations

from podium.core.errors import PodiumError
from podium.core.updates import Updates
from podium.memories import ScoreHistory, SuccessPrior
from podium.method import Home, Method, Protocol, Role
from podium.methods.catalogue import recipe
from podium.parts.advantage import ShrunkBaseline
from podium.parts.objective import Clip, PolicyGradient
from podium.parts.reward import SignedReward
from podium.strategies import SampleMore

__all__ = ["v0_5"]


@recipe(
    summary="Few rollouts: shrinks the group baseline to a prior from the task's history or a value model.",
    citation="V0.5: Generalist Value Model as a Prior for Sparse RL Rollouts, https://now-join-us.github.io/V0_5",
    tags=("baseline", "rollout budget", "value function", "variance reduction", "efficiency"),
    protocol=Protocol(model="Qwen3-4B-Instruct-2507", source="arXiv 2603.10848, a public reading note"),
    home=Home("sums", level=2),
)
def v0_5(
    n: int = 4,
    most: int = 16,
    cost: float = 0.0039,
    prior: str = "history",
    value: str | None = None,
    support: int = 8,
    clip_low: float = 0.2,
    clip_high: float = 0.28,
    mini_batches: int = 4,
) -> Method:
    """Rewards ±1, k rollouts with mean v, prior V: D² = max(0, (v − V)² − 1/k), w = D²/(D² + 1/k), A = r − (w·v + (1 −
    w)·V). One more rollout is sampled while that takes more than `cost` off D²·(1/k)/(D² + 1/k), up to `most`.

    With V = v it is Dr. GRPO's advantage on rewards of ±1; `| shape.Whiten(level="rollout")` adds division by the
    batch's std. The paper's prior is a frozen generalist value model. Such a model comes from logged runs (`podium
    values RUN --out DIR`), so without one this is a light form: V is 2p − 1 with p the success rate of the task at its
    earlier visits, shrunk to that of all tasks, and tasks must come back. `value=DIR` is the published form. The number
    of optimiser steps per batch is not known.

    Args:
        n: Rollouts per task at first.
        most: Rollouts per task at most.
        cost: Price of one more rollout, in units of squared reward.
        prior: Where `group.prior` comes from without `value`: `history`, the task's past success rate, or `own`, a
            memory that you add.
        value: Directory of a value model, which reads the scores of the last `support` tasks and the task; None: no
            model.
        support: Scored tasks that the value model reads.
        clip_low: Lower end of the importance ratio's clip range, 1 − clip_low.
        clip_high: Upper end of the importance ratio's clip range, 1 + clip_high.
        mini_batches: Optimiser steps per batch; the number is ours.
    """
    if prior not in ("history", "own"):
        raise PodiumError(f"v0-5: prior = {prior!r} is not 'history' or 'own'.")
    prior_memory = (ScoreHistory(reader="value", support=support),) if value else (SuccessPrior(),)
    memories = prior_memory if prior == "history" else ()
    return Method(
        rollout=SampleMore(n=n, most=most, cost=cost),
        reward=(SignedReward(),),
        advantage=ShrunkBaseline(),
        objective=(PolicyGradient(clip=Clip(clip_low, clip_high)),),
        updates=Updates(mini_batches=mini_batches),
        memories=memories,
        roles=(Role("value", source=value),) if value else (),
    )
