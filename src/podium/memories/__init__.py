"""Memories: state that outlives an iteration and is saved with every checkpoint.

At the start of an iteration a memory recalls columns for the tasks (`group.NAME`) or for the whole batch
(`batch.NAME`), which any part may read; at its end it observes the batch. Some also expose numbers that schedules
`Follow`, and some bring back rollouts of earlier iterations. They hold beliefs about tasks (pass rates, difficulty),
running statistics, controllers of coefficients, replay buffers and libraries of texts.
"""

from podium.memories.arm_rewards import ArmRewards, LearningCurves
from podium.memories.beta_beliefs import BetaBeliefs
from podium.memories.captions import Captions
from podium.memories.difficulty_control import DifficultyControl
from podium.memories.domain_rewards import DomainRewards
from podium.memories.entropy_scales import EntropyScales
from podium.memories.entropy_targets import EntropyAnchor, EntropySetpoint, GateState
from podium.memories.experiences import Experiences
from podium.memories.group_experts import GroupExperts
from podium.memories.hint_levels import HintLevels, LastHints
from podium.memories.hint_rates import HintRates
from podium.memories.in_flight import InFlight
from podium.memories.instructions import Instructions
from podium.memories.kept_views import KeptViews
from podium.memories.kl_control import AsymmetricKL, EntropyGatedKL
from podium.memories.lesson_library import LessonLibrary
from podium.memories.model_rates import ModelRates
from podium.memories.monitor import Monitor
from podium.memories.pair_labels import PairLabels
from podium.memories.pass_rates import PassRates, Sweeps
from podium.memories.planning_phrases import PlanningPhrases
from podium.memories.quantiles import QuantileTracker
from podium.memories.rank_baselines import RankBaselines
from podium.memories.replay import PriorityReplay, SuccessReplay
from podium.memories.reward_shift import RewardShift
from podium.memories.reward_statistics import RewardStatistics
from podium.memories.score_bins import ScoreBins
from podium.memories.score_history import ScoreHistory
from podium.memories.seed_tasks import SeedTasks
from podium.memories.segments import WaitingSegments
from podium.memories.similar_scores import SimilarScores
from podium.memories.solved_tasks import SolvedTasks
from podium.memories.solved_texts import SolvedTexts
from podium.memories.stored_rollouts import StoredRollouts
from podium.memories.success import StoredResponses, SuccessPrior, SuccessTracker
from podium.memories.task_difficulty import RightTexts, TaskDifficulty
from podium.memories.tool_gains import ToolGains
from podium.memories.trajectories import Trajectories
from podium.memories.transitions import Transitions
from podium.memories.turn_counts import TurnCounts
from podium.memories.turn_entropies import TurnEntropies

__all__ = [
    "GroupExperts",
    "ArmRewards",
    "LearningCurves",
    "SeedTasks",
    "PairLabels",
    "AsymmetricKL",
    "BetaBeliefs",
    "Captions",
    "DifficultyControl",
    "DomainRewards",
    "EntropyAnchor",
    "EntropyGatedKL",
    "EntropyScales",
    "EntropySetpoint",
    "GateState",
    "HintLevels",
    "HintRates",
    "InFlight",
    "KeptViews",
    "LastHints",
    "Experiences",
    "Instructions",
    "LessonLibrary",
    "ModelRates",
    "Monitor",
    "PassRates",
    "PlanningPhrases",
    "PriorityReplay",
    "QuantileTracker",
    "RankBaselines",
    "RewardShift",
    "RewardStatistics",
    "RightTexts",
    "ScoreBins",
    "ScoreHistory",
    "SimilarScores",
    "SolvedTasks",
    "SolvedTexts",
    "StoredResponses",
    "StoredRollouts",
    "SuccessPrior",
    "SuccessReplay",
    "SuccessTracker",
    "Sweeps",
    "TaskDifficulty",
    "ToolGains",
    "Trajectories",
    "Transitions",
    "TurnCounts",
    "TurnEntropies",
    "WaitingSegments",
]
