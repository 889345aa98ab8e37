"""The reward stage: parts that write rewards."""

from podium.reward.baseline import GreedyBaseline
from podium.reward.blocks import RandomBlocks
from podium.reward.call_bonus import CallBonus
from podium.reward.calls import MatchCalls
from podium.reward.cascade import Cascade, RandomReward
from podium.reward.continuation import ContinuationReward
from podium.reward.contrast import Bonus, ContrastiveFeature, Marked, WeightedSum
from podium.reward.degenerate import MarkDegenerate, Override
from podium.reward.flow import FlowReward
from podium.reward.gain import AnswerGain, FeedbackGain
from podium.reward.guided import GuidedBonus
from podium.reward.hybrid import HybridReward
from podium.reward.length import LengthBonus, LengthLimit, Overlong
from podium.reward.likelihood import AnswerLikelihood, AnswerPerplexity
from podium.reward.log_ratio import LogRatio
from podium.reward.marks import MarkPattern, MarkPhrases
from podium.reward.meta import MetaReasoning, ReadTags
from podium.reward.monitor import Monitor
from podium.reward.penalty import SequenceKL, TokenReward
from podium.reward.phase import PhaseEntropy
from podium.reward.planning import PlanPenalties
from podium.reward.potential import StepPotential
from podium.reward.power import ReferencePower
from podium.reward.rank import RankDiscount
from podium.reward.rubric import Rubric
from podium.reward.running import RewardStatistics, RunningNormalize
from podium.reward.scale import Signed
from podium.reward.search import SearchScore
from podium.reward.speed import Speedup
from podium.reward.stages import ProgressiveReward
from podium.reward.structure import BrevityBonus, RankTruncated
from podium.reward.tool_use import ToolUse
from podium.reward.vote import Majority, PseudoLabel, VoteQuality, WeightedVote
from podium.reward.window import DifficultyControl, ThinkingMoments, WindowReward

__all__ = [
    "AnswerGain",
    "AnswerLikelihood",
    "AnswerPerplexity",
    "Bonus",
    "BrevityBonus",
    "CallBonus",
    "Cascade",
    "ContinuationReward",
    "ContrastiveFeature",
    "DifficultyControl",
    "FeedbackGain",
    "FlowReward",
    "GreedyBaseline",
    "GuidedBonus",
    "HybridReward",
    "LengthBonus",
    "LengthLimit",
    "LogRatio",
    "Majority",
    "MarkDegenerate",
    "MarkPattern",
    "MarkPhrases",
    "Marked",
    "MatchCalls",
    "MetaReasoning",
    "Monitor",
    "Overlong",
    "Override",
    "PhaseEntropy",
    "PlanPenalties",
    "ProgressiveReward",
    "PseudoLabel",
    "RandomBlocks",
    "RandomReward",
    "RankDiscount",
    "RankTruncated",
    "ReadTags",
    "ReferencePower",
    "RewardStatistics",
    "Rubric",
    "RunningNormalize",
    "SearchScore",
    "SequenceKL",
    "Signed",
    "Speedup",
    "StepPotential",
    "ThinkingMoments",
    "TokenReward",
    "ToolUse",
    "VoteQuality",
    "WeightedVote",
    "WeightedSum",
    "WindowReward",
]
