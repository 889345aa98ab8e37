"""Strategies: how the rollouts of each task are made. `Sample` is the plain case."""

from podium.strategies.advice.experienced import Experienced
from podium.strategies.advice.instructed import Instructed
from podium.strategies.advice.introspect import Introspect
from podium.strategies.advice.proposers import AdviceMutator, InstructionWriter, ModelProposer
from podium.strategies.advice.writers import AdviceWriter, ModelWriter, RuleMiner
from podium.strategies.agents.advantage_filter import AdvantageFilter
from podium.strategies.ask import ChatServer
from podium.strategies.budgets.prune import Prune
from podium.strategies.budgets.rounds import Allocated, Rounds
from podium.strategies.budgets.sample_more import SampleMore
from podium.strategies.budgets.second_wave import SecondWave
from podium.strategies.budgets.turn_budget import BudgetedTurns, TurnsLeft
from podium.strategies.draw import Draw
from podium.strategies.hints.augment import Augmented
from podium.strategies.hints.checklist import BestAttempt
from podium.strategies.hints.guided import Contrasted, Guided, RubricShown
from podium.strategies.hints.help import Help, HintTiers, SelfWritten, SolutionShares, WorkedExamples
from podium.strategies.hints.hint_reward import HintReward
from podium.strategies.hints.hint_rounds import HintPrefix, HintRounds
from podium.strategies.hints.item_response import ItemResponse
from podium.strategies.hints.judge import Judge
from podium.strategies.hints.learn_to_hint import LearnToHint
from podium.strategies.hints.repair import Refine, Repair
from podium.strategies.hints.scaffolded import Scaffolded
from podium.strategies.judged.analysed import Analysed
from podium.strategies.judged.arena import Arena
from podium.strategies.judged.judged_rollouts import JudgedRollouts
from podium.strategies.judged.judged_turns import JudgedTurns
from podium.strategies.judged.judges import OptionJudge, WrittenJudge, criteria_judge, judge_named
from podium.strategies.judged.label_captions import LabelCaptions
from podium.strategies.judged.option_scores import OptionScores
from podium.strategies.pairs.attempted_pairs import AttemptedPairs
from podium.strategies.pairs.recorded_pairs import RecordedPairs
from podium.strategies.pairs.walked_segments import WalkedSegments
from podium.strategies.sample.blueprint import SampleBlueprints
from podium.strategies.sample.choose import Choose
from podium.strategies.sample.continuations import Continuations
from podium.strategies.sample.directed import Directed
from podium.strategies.sample.draw_pictures import DrawPictures
from podium.strategies.sample.lessons import SampleAdvised
from podium.strategies.sample.likeliest_options import LikeliestOptions
from podium.strategies.sample.phrased import Phrased
from podium.strategies.sample.read_in_chunks import ReadInChunks
from podium.strategies.sample.refiner import Refiner
from podium.strategies.sample.revisit import SampleAndRevisit
from podium.strategies.sample.sample import Sample
from podium.strategies.sample.self_play import SelfPlay
from podium.strategies.sample.step_probes import StepProbes
from podium.strategies.sample.windowed import Windowed
from podium.strategies.teachers.demonstrate import Demonstrate
from podium.strategies.teachers.expert_turns import NextTurn
from podium.strategies.teachers.recorded import Recorded
from podium.strategies.teachers.reflect import ReplayAndReflect
from podium.strategies.teachers.step_scores import JudgedSteps, RuledSteps, StepScorer, ValuedSteps
from podium.strategies.teachers.teachers import Rectified, Stored, Teachers
from podium.strategies.trees.branching import Branching
from podium.strategies.trees.counterfactual import Counterfactual
from podium.strategies.trees.fork import Fork, Grow
from podium.strategies.trees.fork_points import CriticalToken, Cutpoints, TopEntropy
from podium.strategies.trees.search import Search
from podium.strategies.trees.tree import Tree

__all__ = [
    "Introspect",
    "AdvantageFilter",
    "Scaffolded",
    "AdviceMutator",
    "AdviceWriter",
    "ChatServer",
    "Experienced",
    "Instructed",
    "InstructionWriter",
    "ModelProposer",
    "ModelWriter",
    "RuleMiner",
    "Refiner",
    "WalkedSegments",
    "Allocated",
    "Arena",
    "AttemptedPairs",
    "Augmented",
    "BestAttempt",
    "Branching",
    "BudgetedTurns",
    "Choose",
    "Continuations",
    "Contrasted",
    "Counterfactual",
    "CriticalToken",
    "Cutpoints",
    "Demonstrate",
    "Directed",
    "Draw",
    "DrawPictures",
    "Fork",
    "Grow",
    "Guided",
    "Help",
    "HintPrefix",
    "HintReward",
    "HintRounds",
    "HintTiers",
    "ItemResponse",
    "Judge",
    "Analysed",
    "JudgedRollouts",
    "OptionScores",
    "JudgedSteps",
    "JudgedTurns",
    "LabelCaptions",
    "LearnToHint",
    "LikeliestOptions",
    "NextTurn",
    "Phrased",
    "Prune",
    "ReadInChunks",
    "Recorded",
    "RecordedPairs",
    "Rectified",
    "Refine",
    "Repair",
    "ReplayAndReflect",
    "Rounds",
    "RubricShown",
    "RuledSteps",
    "Sample",
    "SampleAdvised",
    "SampleAndRevisit",
    "SampleBlueprints",
    "SampleMore",
    "Search",
    "SecondWave",
    "SelfPlay",
    "SelfWritten",
    "SolutionShares",
    "StepProbes",
    "StepScorer",
    "Stored",
    "Teachers",
    "TopEntropy",
    "Tree",
    "TurnsLeft",
    "ValuedSteps",
    "Windowed",
    "WorkedExamples",
    "OptionJudge",
    "WrittenJudge",
    "criteria_judge",
    "judge_named",
]
