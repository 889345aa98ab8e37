"""Importance ratios π / π_old of tokens, turns and sequences, as logarithms."""

from __future__ import annotations

import math

from torch import Tensor

from podium.core.batch import Batch
from podium.core.part import stop_gradient
from podium.core.signal import Signal

__all__ = ["NOW", "log_ratio_limits", "sequence_log_ratio", "span_log_ratio", "token_log_ratio"]

NOW = Signal("logp", of="now", grad=True)
LARGEST_SPAN_LOG_RATIO = 10.0


def token_log_ratio(now: Tensor, old: Tensor) -> Tensor:
    """[token] log r_t = log π(y_t) − log π_old(y_t): the ratio of PPO and GRPO."""
    return now - old


def span_log_ratio(batch: Batch, log_ratio: Tensor, span: str, joint: bool = False) -> Tensor:
    """[span] log s = (1/|y|) Σ_t log r_t over the trained tokens of a span: its ratio, normalised by length (GSPO).

    With `joint` it is the sum: the ratio of the tokens' joint probabilities.
    """
    return batch.reduce(log_ratio, "token", span, "sum" if joint else "mean", where=batch.trained("token"))


def sequence_log_ratio(
    batch: Batch, log_ratio: Tensor, span: str = "rollout", shared: bool = False, joint: bool = False
) -> Tensor:
    """[token] the log-ratio of the span that each token belongs to, from those of the tokens.

    Unless `shared`, it is sg[log s] + log r_t − sg[log r_t]: the same value, but the gradient of a token's loss reaches
    that token alone (GSPO-token), so tokens of one span may have different advantages. Shared, it reaches all tokens of
    the span (GSPO). The gradients agree where advantages and weights are constant over the span.
    """
    log_s = span_log_ratio(batch, log_ratio, span, joint)
    if shared:
        return batch.spread(log_s, span, "token")
    return log_ratio - stop_gradient(log_ratio) + batch.spread(stop_gradient(log_s), span, "token")


def log_ratio_limits(clamp: float, of_tokens: bool) -> tuple[float, float]:
    """The bounds of a log-ratio, so that its exponential stays finite.

    For a token they are ± clamp. For a span there is no lower bound, and the upper one is min(clamp, 10).
    """
    return (-clamp, clamp) if of_tokens else (-math.inf, min(clamp, LARGEST_SPAN_LOG_RATIO))
