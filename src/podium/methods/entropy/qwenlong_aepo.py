"""QwenLong-L1.5 (AEPO): adaptive entropy-controlled policy optimisation."""

from __future__ import annotations

from podium.memories import GateState
from podium.method import Method
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.metric.report_mean import ReportMean
from podium.parts.objective import Clip, PolicyGradient
from podium.parts.select import Balanced
from podium.parts.shape import EntropyGate
from podium.strategies import Draw, Sample

__all__ = ["qwenlong_aepo"]


@recipe(
    summary="Long-context RL: task-balanced sampling and advantages; negative rollouts masked while entropy is high.",
    citation="QwenLong-L1.5, https://github.com/Tongyi-Zhiwen/Qwen-Doc",
    tags=("long context", "entropy", "stability", "negative samples", "advantage estimation"),
    presets={"paper": {}, "listing": {"memory": False}},
)
def qwenlong_aepo(
    n: int = 8,
    low: float = 0.18,
    high: float = 0.28,
    memory: bool = True,
    temperature: float = 0.7,
    top_p: float = 0.95,
    clip: float = 0.2,
) -> Method:
    """Every domain is sampled equally often. A = (r − mean of the group) / (std over all rollouts of its domain in the
    batch + 1e-6). Above the entropy `high` rollouts without A > 0 and reward > 0 are left out, until it falls below
    `low`. On-policy GRPO without KL penalty.

    With one domain and one group, inside the band, it is GRPO. The bounds are assumptions: the report gives none. The
    listing of the release has no memory and leaves rollouts out inside the band, contrary to its own text: `@listing`.

    Args:
        n: Rollouts per task (the group size).
        low: Entropy in nats below which negative rollouts are trained again.
        high: Entropy in nats above which they are left out.
        memory: Hysteresis: inside the band the last decision stays; False: inside the band they are left out.
        temperature: Sampling temperature.
        top_p: Nucleus sampling: the probability mass that is sampled from.
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
    """
    return Method(
        select=Balanced(),
        rollout=Sample(n=n, draw=Draw(temperature=temperature, top_p=top_p)),
        advantage=Normalize(scope=("rollout.domain",)),
        shape=(EntropyGate(low, high, memory),),
        objective=(PolicyGradient(clip=Clip(clip, clip)),),
        metric=(ReportMean("rollout.keep.gate"),),
        memories=(GateState(),) if memory else (),
    )
