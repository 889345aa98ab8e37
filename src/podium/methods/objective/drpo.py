"""TODO"""

from __future__ import annotations

from podium.core.updates import Updates
from podium.method import Method
from podium.methods.catalogue import recipe
from podium.parts.objective import GroupContrast, StayWithin
from podium.strategies import Draw, Sample

__all__ = ["drpo"]


@recipe(
    summary="Raise right answers against wrong ones; length only decides which right answer is raised most.",
    citation="DRPO: Efficient Reasoning via Decoupled Reward Policy Optimization, https://github.com/Optimization-AI/DRPO",
)
def drpo(
    n: int = 8,
    length_temperature: float = 0.1,
    tau: float = 10.0,
    max_length: int = 8192,
    delta: float = 1e-4,
    beta: float = 1e3,
    estimator: str = "k1",
    temperature: float = 0.6,
    mini_batches: int = 4,
    shown: str = "constant",
) -> Method:
    """s_i = mean log π of rollout i; per group with both classes −Σ_right w_i s_i + τ log Σ_wrong e^{s_j/τ}, with
    w ∝ exp((1 − n_i/max_length)/length_temperature) summing to 1, over the number of all groups; plus a constraint with
    the gradient of beta/2 · max(K − delta, 0)², K the mean distance to the old policy. No advantage, clip or reference.

    The release shows τ in place of the log-sum-exp, whose gradient is the same; `shown="value"` shows its value.
    length_temperature → ∞ weighs all right answers alike. Groups of one class only have a part in the divisor.
    """
    contrast = GroupContrast(tau, max_length=max_length, length_temperature=length_temperature, shown=shown)
    return Method(
        rollout=Sample(n=n, draw=Draw(temperature=temperature)),
        objective=(contrast, StayWithin(delta, beta, estimator)),
        updates=Updates(mini_batches=mini_batches),
    )
