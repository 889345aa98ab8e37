"""The evaluate stage: metrics with needs, and measures of a model on held-out tasks."""

from podium.evaluation.passk import confidence, majority_at_k, pass_at_k

__all__ = ["confidence", "majority_at_k", "pass_at_k"]
