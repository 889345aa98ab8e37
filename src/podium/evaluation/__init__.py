"""The evaluate stage: metrics with needs, and measures of a model on held-out tasks."""

from podium.analysis.dynamics import EntropyLaw, advantage_lost_to_noise, bandit, expected_update, fit_entropy_law
from podium.analysis.support import Support, answer_entropy, detectability, shannon, support_change
from podium.evaluation.passk import confidence, majority_at_k, pass_at_k

__all__ = [
    "EntropyLaw",
    "Support",
    "advantage_lost_to_noise",
    "answer_entropy",
    "bandit",
    "confidence",
    "detectability",
    "expected_update",
    "fit_entropy_law",
    "majority_at_k",
    "pass_at_k",
    "shannon",
    "support_change",
]
