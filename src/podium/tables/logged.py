"""Off-policy evaluation: the value of a policy from what another one did, whose probabilities were logged.

Logs are padded arrays [rollout, step]; `mask` says which steps took place. Returns are Σ γ^t r_t.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from podium.core.errors import PodiumError

__all__ = [
    "ESTIMATORS",
    "Logs",
    "direct_method",
    "doubly_robust_value",
    "effective_sample_size",
    "per_decision",
    "per_decision_self_normalised",
    "trajectory_importance",
    "trajectory_self_normalised",
]

Array = np.ndarray
LARGEST_EXPONENT = 600.0  # of a product of ratios, before it overflows


@dataclass(frozen=True)
class Logs:
    """What happened, how likely it was, how likely it is under the policy in question, and what a model predicts."""

    reward: Array  # [rollout, step]
    behaviour_logp: Array  # [rollout, step] of the action taken
    target_logp: Array  # [rollout, step] of the same action, under the policy to be evaluated
    mask: Array  # [rollout, step]
    q: Array | None = None  # [rollout, step] predicted return of the action taken, under the policy to be evaluated
    v: Array | None = None  # [rollout, step] predicted return of its own action there
    gamma: float = 1.0

    def __post_init__(self) -> None:
        shape = np.shape(self.reward)
        for name in ("behaviour_logp", "target_logp", "mask", "q", "v"):
            given = getattr(self, name)
            if given is not None and np.shape(given) != shape:
                raise PodiumError(f"{name} has the shape {np.shape(given)}, but rewards have {shape}.")
        if len(shape) != 2 or not shape[0]:
            raise PodiumError(f"Logs are arrays [rollout, step] with at least one rollout, not of the shape {shape}.")

    @property
    def discount(self) -> Array:
        """[step] γ^t."""
        return self.gamma ** np.arange(self.reward.shape[1])

    @property
    def returns(self) -> Array:
        """[rollout] Σ γ^t r_t."""
        return (self.discount * self.reward * self.mask).sum(1)

    def weights(self) -> Array:
        """[rollout, step] Π_{u ≤ t} π(a_u) / b(a_u); what did not take place has the ratio 1."""
        difference = np.where(self.mask > 0, self.target_logp - self.behaviour_logp, 0.0)
        return np.exp(np.minimum(difference.cumsum(1), LARGEST_EXPONENT))


def trajectory_importance(logs: Logs) -> float:
    """The mean of w · R, with the ratio w of the whole rollout: unbiased, and of the largest variance."""
    return float((logs.weights()[:, -1] * logs.returns).mean())


def trajectory_self_normalised(logs: Logs) -> float:
    """Σ w R / Σ w: within the range of the returns, biased by O(1/n). 0 where all weights vanish."""
    w = logs.weights()[:, -1]
    return float((w * logs.returns).sum() / w.sum()) if w.sum() > 0 else 0.0


def per_decision(logs: Logs) -> float:
    """The mean of Σ_t γ^t w_t r_t: a reward is weighed by the actions before it alone."""
    return float((logs.discount * logs.weights() * logs.reward * logs.mask).sum(1).mean())


def per_decision_self_normalised(logs: Logs) -> float:
    """Per decision, with the weights of every step divided by their mean over rollouts."""
    w = logs.weights()
    scale = w.mean(0)
    w = np.divide(w, scale, out=np.zeros_like(w), where=scale > 0)
    return float((logs.discount * w * logs.reward * logs.mask).sum(1).mean())


def direct_method(logs: Logs) -> float:
    """The mean of the predicted value at the first step: no weights, and as wrong as the model is."""
    _, v = _predictions(logs)
    return float((v[:, 0] * logs.mask[:, 0]).mean())


def doubly_robust_value(logs: Logs) -> float:
    """Σ_t γ^t (w_t (r_t − q_t) + w_{t−1} v_t): right if the model or the logged probabilities are."""
    q, v = _predictions(logs)
    w = logs.weights()
    before = np.concatenate([np.ones((len(w), 1)), w[:, :-1]], 1)
    terms = w * (logs.reward - q) + before * v
    return float((logs.discount * terms * logs.mask).sum(1).mean())


def effective_sample_size(logs: Logs) -> float:
    """(Σ w)² / Σ w², of the weights of whole rollouts: how many rollouts of the policy itself would say as much."""
    w = logs.weights()[:, -1]
    w = w / max(float(w.max()), 1e-300)
    return float(w.sum() ** 2 / (w**2).sum())


def _predictions(logs: Logs) -> tuple[Array, Array]:
    if logs.q is None or logs.v is None:
        raise PodiumError("This estimator needs a model of returns: give Logs q and v.")
    return logs.q, logs.v


ESTIMATORS: dict[str, Callable[[Logs], float]] = {
    "direct method": direct_method,
    "importance sampling": trajectory_importance,
    "self-normalised": trajectory_self_normalised,
    "per decision": per_decision,
    "per decision, self-normalised": per_decision_self_normalised,
    "doubly robust": doubly_robust_value,
}
