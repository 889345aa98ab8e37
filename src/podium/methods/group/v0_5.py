"""TODO"""

from __future__ import annotations

from podium.core.errors import PodiumError
from podium.memories import ScoreHistory, SuccessPrior
from podium.method import Method, Role
from podium.methods.catalogue import recipe
from podium.parts.advantage import ShrunkBaseline
from podium.parts.objective import Clip, PolicyGradient
from podium.parts.reward import SignedReward
from podium.strategies import SampleMore

__all__ = ["v0_5"]


@recipe(
    summary="Few rollouts: the baseline shrinks to a prior value as far as the data allow, or more are sampled.",
    citation="V0.5: Generalist Value Model as a Prior for Sparse RL Rollouts, https://now-join-us.github.io/V0_5",
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
) -> Method:
    """Rewards ±1, k rollouts with mean v, prior V: D² = max(0, (v − V)² − 1/k), w = D²/(D² + 1/k), A = r − (w·v +
    (1 − w)·V). One more rollout is sampled while that takes more than `cost` off D²·(1/k)/(D² + 1/k), up to `most`.

    The paper's prior is a frozen generalist value model: `value` is the directory of one, which reads the scores of
    the last `support` tasks and the task (`podium values RUN --out DIR` trains it). Without one `group.prior` comes
    from the task's own history of success (`prior="history"`), or from a memory of yours that writes it
    (`prior="own"`). With V = v it is Dr. GRPO's advantage on rewards of ±1; a std of the batch is
    `| shape.Whiten(level="rollout")`.
    """
    if prior not in ("history", "own"):
        raise PodiumError(f"v0-5: prior = {prior!r} is not 'history' or 'own'.")
    guessed = (ScoreHistory(reader="value", support=support),) if value else (SuccessPrior(),)
    memories = guessed if prior == "history" else ()
    return Method(
        rollout=SampleMore(n=n, most=most, cost=cost),
        reward=(SignedReward(),),
        advantage=ShrunkBaseline(),
        objective=(PolicyGradient(clip=Clip(clip_low, clip_high)),),
        memories=memories,
        roles=(Role("value", source=value),) if value else (),
    )
