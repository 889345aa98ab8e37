"""The rollout stage: how rollouts are made."""

from podium.rollout.adaptive import SampleMore
from podium.rollout.augment import Augmented, TaskDifficulty
from podium.rollout.blueprint import SampleBlueprints
from podium.rollout.branching import Branching
from podium.rollout.checklist import BestAttempt
from podium.rollout.continuations import Continuations
from podium.rollout.cuts import NextTurn
from podium.rollout.examples import SolvedTasks
from podium.rollout.fork import Fork, Grow
from podium.rollout.guided import Contrasted, Guided, RubricShown
from podium.rollout.help import Help, HintTiers, SelfWritten, SolutionShares, WorkedExamples
from podium.rollout.hint_levels import HintLevels, LastHints
from podium.rollout.hint_rounds import HintPrefix, HintRates, HintRounds
from podium.rollout.hinter import LearnToHint
from podium.rollout.item_response import ItemResponse
from podium.rollout.lessons import LessonLibrary, SampleAdvised
from podium.rollout.places import CriticalToken, Cutpoints, TopEntropy
from podium.rollout.probes import StepProbes
from podium.rollout.prune import Prune, ScoreBins
from podium.rollout.recorded import Recorded
from podium.rollout.reflect import ReplayAndReflect
from podium.rollout.repair import Refine, Repair
from podium.rollout.rounds import Allocated, Rounds
from podium.rollout.sample import Sample
from podium.rollout.search import Search
from podium.rollout.second_wave import SecondWave
from podium.rollout.solved import SolvedTexts
from podium.rollout.storage import StoredRollouts
from podium.rollout.teachers import Rectified, Stored, Teachers
from podium.rollout.tree import Tree
from podium.rollout.turn_budget import BudgetedTurns, TurnCost, TurnCounts, TurnsLeft
from podium.rollout.windowed import InFlight, ResumeFirst, Windowed
from podium.rollout.worth import HintWorth

__all__ = [
    "Allocated",
    "Augmented",
    "BestAttempt",
    "Branching",
    "BudgetedTurns",
    "Continuations",
    "Contrasted",
    "CriticalToken",
    "Cutpoints",
    "Fork",
    "Grow",
    "Guided",
    "Help",
    "HintLevels",
    "HintPrefix",
    "HintRates",
    "HintRounds",
    "HintTiers",
    "HintWorth",
    "InFlight",
    "ItemResponse",
    "LastHints",
    "LearnToHint",
    "LessonLibrary",
    "NextTurn",
    "Prune",
    "Recorded",
    "Rectified",
    "Refine",
    "Repair",
    "ReplayAndReflect",
    "ResumeFirst",
    "Rounds",
    "RubricShown",
    "Sample",
    "SampleAdvised",
    "SampleBlueprints",
    "SampleMore",
    "ScoreBins",
    "Search",
    "SecondWave",
    "SelfWritten",
    "SolutionShares",
    "SolvedTasks",
    "SolvedTexts",
    "StepProbes",
    "Stored",
    "StoredRollouts",
    "TaskDifficulty",
    "Teachers",
    "TopEntropy",
    "Tree",
    "TurnCost",
    "TurnCounts",
    "TurnsLeft",
    "Windowed",
    "WorkedExamples",
]
