"""Held-out measurement of a model: pass@k, majority@k and their intervals."""

from podium.evaluation.passk import bootstrap_interval, majority_at_k, pass_at_k

__all__ = ["bootstrap_interval", "majority_at_k", "pass_at_k"]
