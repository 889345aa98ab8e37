"""The objective stage: terms that add up, and the plan of the updates."""

from podium.objective.classify import GroupSoftmax, RolloutLogistic
from podium.objective.gradient import Forward, Step, backward
from podium.objective.regularize import KL, Entropy, Likelihood, ValueLoss
from podium.objective.surrogate import Clip, PolicyGradient
from podium.objective.term import Aggregate, Term
from podium.objective.updates import Updates

__all__ = [
    "KL",
    "Aggregate",
    "Clip",
    "Entropy",
    "Forward",
    "GroupSoftmax",
    "Likelihood",
    "PolicyGradient",
    "RolloutLogistic",
    "Step",
    "Term",
    "Updates",
    "ValueLoss",
    "backward",
]
