"""The select stage: which tasks to sample next."""

from podium.select.balanced import Balanced
from podium.select.belief import BetaBeliefs, InformationGain, LeastKnown, Thompson
from podium.select.domains import ByDomain, DomainRewards
from podium.select.forecast import ScoreHistory
from podium.select.history import DropMeasuring, HardFocus, Mixed, PassRates, Ranked, Sweeps
from podium.select.rounds import StillHard
from podium.select.uncertain import Uncertain

__all__ = [
    "Balanced",
    "BetaBeliefs",
    "ByDomain",
    "DomainRewards",
    "DropMeasuring",
    "HardFocus",
    "InformationGain",
    "LeastKnown",
    "Mixed",
    "PassRates",
    "Ranked",
    "ScoreHistory",
    "StillHard",
    "Sweeps",
    "Thompson",
    "Uncertain",
]
