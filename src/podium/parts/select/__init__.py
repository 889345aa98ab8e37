"""Select: which tasks an iteration samples, its curriculum.

A select part reads columns of the task level (`group.*`) that memories recall, `group.number` and a random number per
task, `group.random`. It returns one weight per task, by which tasks are drawn; a part that overrides `choose` picks
the tasks of a batch itself. It never reads rollouts.
"""

from podium.parts.select.belief import InformationGain, LeastKnown, Thompson
from podium.parts.select.domains import ByDomain
from podium.parts.select.history import HardFocus, MixedOutcomes, NotMastered, Ranked
from podium.parts.select.inverse_gap import InverseGap
from podium.parts.select.marginal_gain import MarginalGain
from podium.parts.select.resume_first import ResumeFirst
from podium.parts.select.scored import Balanced, Uncertain
from podium.parts.select.sometimes_solved import SometimesSolved
from podium.parts.select.still_hard import StillHard
from podium.parts.select.tiers import EasierTiers, HardMix

__all__ = [
    "Balanced",
    "ByDomain",
    "EasierTiers",
    "HardFocus",
    "HardMix",
    "InformationGain",
    "InverseGap",
    "LeastKnown",
    "MarginalGain",
    "MixedOutcomes",
    "NotMastered",
    "Ranked",
    "ResumeFirst",
    "SometimesSolved",
    "StillHard",
    "Thompson",
    "Uncertain",
]
