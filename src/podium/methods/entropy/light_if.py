"""Light-IF: entropy-preserving SFT and token-wise entropy-adaptive RL."""

from __future__ import annotations

from podium.core.errors import PodiumError
from podium.method import Method
from podium.methods._shared import SELECTED, anchored
from podium.methods.catalogue import recipe
from podium.parts.advantage import Normalize
from podium.parts.keep import RouteBySuccess
from podium.parts.metric.report_mean import ReportMean
from podium.parts.objective import KL, Clip, CovarianceEntropy, Likelihood, PolicyGradient
from podium.parts.shape import SelectTokens
from podium.strategies import Sample

__all__ = ["light_if"]


@recipe(
    summary="Entropy-preserving SFT and RL with a token-wise adaptive entropy bonus, for instruction following.",
    citation="Light-IF: Preview and Self-Checking for Complex Instruction Following, https://github.com/Qihoo360/Light-IF",
    tags=("entropy", "entropy collapse", "sft", "token-level", "instruction following"),
    presets={"rl": {}, "sft": {"phase": "sft"}, "release": {"scale": 0.0}},
)
def light_if(
    phase: str = "rl",
    n: int = 8,
    scale: float = 10.0,
    cap: float = 5.0,
    clip: float = 1.0,
    dual: float = 10.0,
    kl: float = 0.001,
    share: float = 0.8,
    trade: float = 0.8,
    style: str = "short",
) -> Method:
    """`rl`: GRPO's advantage, a clip of 1 on both sides, dual clip 10, k3 to the reference, and the bonus κ_t H_t with
    κ = clamp(scale · softmax of the covariance over a rollout, 0, cap), whose gradient also flows through κ. `sft`:
    −log π on demonstrations, over the ⌊share⌋ of their tokens with the largest −log π − trade · H.

    scale = 0 has no bonus, as the release runs: its branch is never reached (`@release`). share = 1 is plain imitation.
    The softmax distributes `scale` over a rollout, so the bonus is stronger for shorter answers: 10 is meant for
    thousands of tokens and drowns the reward where an answer has twenty.

    Args:
        phase: `rl`, or the cold start `sft`.
        n: Rollouts per task (the group size).
        scale: Total of κ over a rollout (`rl`).
        cap: Largest κ of a token (`rl`).
        clip: Clip range of the importance ratio, [1 − clip, 1 + clip].
        dual: Dual clip: where the advantage is negative, the loss is at most dual · |A|.
        kl: Coefficient of the KL penalty (k3) to the reference; 0 loads no reference model.
        share: Share of the demonstrations' tokens that is trained (`sft`).
        trade: Weight of the entropy in choosing them (`sft`).
        style: Which of the world's solutions to take, by its style (`short`, …).
    """
    if phase == "sft":
        return Method(
            rollout=Sample(n=1, demonstrations=(style,)),
            keep=(RouteBySuccess(gate=1),),
            shape=(SelectTokens("surplus", share, rule="floor", trade=trade),),
            objective=(Likelihood(where=SELECTED),),
            metric=(ReportMean(SELECTED),),
        )
    if phase != "rl":
        raise PodiumError(f"light-if: phase = {phase!r} is not 'rl' or 'sft'.")
    surrogate = PolicyGradient(clip=Clip(clip, clip, dual=dual))
    method = Method(rollout=Sample(n=n), advantage=Normalize(), objective=(surrogate,))
    method = method if scale == 0 else method | CovarianceEntropy(scale, cap)
    return anchored(method, KL("k3", coefficient=kl))
