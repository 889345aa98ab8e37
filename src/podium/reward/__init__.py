"""The reward stage: parts that write rewards."""

from podium.reward.baseline import GreedyBaseline
from podium.reward.blocks import RandomBlocks
from podium.reward.calls import MatchCalls
from podium.reward.cascade import Cascade, RandomReward
from podium.reward.continuation import ContinuationReward
from podium.reward.contrast import Bonus, ContrastiveFeature, Marked
from podium.reward.flow import FlowReward
from podium.reward.gain import AnswerGain, FeedbackGain
from podium.reward.length import LengthBonus, LengthLimit, Overlong
from podium.reward.likelihood import AnswerLikelihood, AnswerPerplexity
from podium.reward.log_ratio import LogRatio
from podium.reward.marks import MarkPattern, MarkPhrases
from podium.reward.meta import MetaReasoning, ReadTags
from podium.reward.penalty import SequenceKL, TokenReward
from podium.reward.phase import PhaseEntropy
from podium.reward.planning import PlanPenalties
from podium.reward.potential import StepPotential
from podium.reward.power import ReferencePower
from podium.reward.rank import RankDiscount
from podium.reward.running import RewardStatistics, RunningNormalize
from podium.reward.scale import Signed
from podium.reward.speed import Speedup
from podium.reward.stages import ProgressiveReward
from podium.reward.tool_use import ToolUse
from podium.reward.vote import Majority, VoteQuality
from podium.reward.window import DifficultyControl, ThinkingMoments, WindowReward

__all__ = [
    "AnswerGain",
    "AnswerLikelihood",
    "AnswerPerplexity",
    "Bonus",
    "Cascade",
    "ContinuationReward",
    "ContrastiveFeature",
    "DifficultyControl",
    "FeedbackGain",
    "FlowReward",
    "GreedyBaseline",
    "LengthBonus",
    "LengthLimit",
    "LogRatio",
    "Majority",
    "MarkPattern",
    "MarkPhrases",
    "Marked",
    "MatchCalls",
    "MetaReasoning",
    "Overlong",
    "PhaseEntropy",
    "PlanPenalties",
    "ProgressiveReward",
    "RandomBlocks",
    "RandomReward",
    "RankDiscount",
    "ReadTags",
    "ReferencePower",
    "RewardStatistics",
    "RunningNormalize",
    "SequenceKL",
    "Signed",
    "Speedup",
    "StepPotential",
    "ThinkingMoments",
    "TokenReward",
    "ToolUse",
    "VoteQuality",
    "WindowReward",
]
