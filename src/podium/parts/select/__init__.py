"""TODO parts.select"""

from podium.parts.select.belief import InformationGain, LeastKnown, Thompson
from podium.parts.select.domains import ByDomain
from podium.parts.select.history import HardFocus, Mixed, Ranked
from podium.parts.select.resume_first import ResumeFirst
from podium.parts.select.still_hard import StillHard
from podium.parts.select.uncertain import Balanced, Uncertain

__all__ = [
    "Balanced",
    "ByDomain",
    "HardFocus",
    "InformationGain",
    "LeastKnown",
    "Mixed",
    "Ranked",
    "ResumeFirst",
    "StillHard",
    "Thompson",
    "Uncertain",
]
