"""The rollout stage: how rollouts are made."""

from podium.rollout.adaptive import SampleMore
from podium.rollout.blueprint import SampleBlueprints
from podium.rollout.branching import Branching
from podium.rollout.continuations import Continuations
from podium.rollout.cuts import NextTurn
from podium.rollout.lessons import LessonLibrary, SampleAdvised
from podium.rollout.probes import StepProbes
from podium.rollout.recorded import Recorded
from podium.rollout.sample import Sample
from podium.rollout.turn_budget import BudgetedTurns, TurnCost, TurnCounts, TurnsLeft
from podium.rollout.windowed import InFlight, ResumeFirst, Windowed

__all__ = [
    "Branching",
    "BudgetedTurns",
    "Continuations",
    "InFlight",
    "LessonLibrary",
    "NextTurn",
    "Recorded",
    "ResumeFirst",
    "Sample",
    "SampleAdvised",
    "SampleBlueprints",
    "SampleMore",
    "StepProbes",
    "TurnCost",
    "TurnCounts",
    "TurnsLeft",
    "Windowed",
]
