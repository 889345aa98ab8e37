"""The reward stage: parts that write rewards."""

from podium.reward.baseline import GreedyBaseline
from podium.reward.cascade import Cascade, RandomReward
from podium.reward.continuation import ContinuationReward
from podium.reward.contrast import Bonus, ContrastiveFeature, Marked
from podium.reward.flow import FlowReward
from podium.reward.length import LengthBonus, LengthLimit, Overlong
from podium.reward.likelihood import AnswerLikelihood, AnswerPerplexity
from podium.reward.log_ratio import LogRatio
from podium.reward.marks import MarkPattern, MarkPhrases
from podium.reward.penalty import SequenceKL, TokenReward
from podium.reward.phase import PhaseEntropy
from podium.reward.potential import StepPotential
from podium.reward.power import ReferencePower
from podium.reward.rank import RankDiscount
from podium.reward.running import RewardStatistics, RunningNormalize
from podium.reward.scale import Signed
from podium.reward.vote import Majority, VoteQuality
from podium.reward.window import DifficultyControl, ThinkingMoments, WindowReward

__all__ = [
    "AnswerLikelihood",
    "AnswerPerplexity",
    "Bonus",
    "Cascade",
    "ContinuationReward",
    "ContrastiveFeature",
    "DifficultyControl",
    "FlowReward",
    "GreedyBaseline",
    "LengthBonus",
    "LengthLimit",
    "LogRatio",
    "Majority",
    "MarkPattern",
    "MarkPhrases",
    "Marked",
    "Overlong",
    "PhaseEntropy",
    "RandomReward",
    "RankDiscount",
    "ReferencePower",
    "RewardStatistics",
    "RunningNormalize",
    "SequenceKL",
    "Signed",
    "StepPotential",
    "ThinkingMoments",
    "TokenReward",
    "VoteQuality",
    "WindowReward",
]
