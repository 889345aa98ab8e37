"""Metrics: numbers of a batch that are only reported."""

from podium.parts.metric.answer_perplexity import AnswerPerplexity
from podium.parts.metric.clip_bias import ClipBias
from podium.parts.metric.diversity import Diversity
from podium.parts.metric.entropies import EntropyPair, EntropyProfile, SemanticEntropy
from podium.parts.metric.potential import PotentialWatch
from podium.parts.metric.process import BestOfN, PairwiseAccuracy
from podium.parts.metric.report_mean import ReportMean
from podium.parts.metric.turn_cost import TurnCost
from podium.parts.metric.votes import VoteQuality, WeightedVote
from podium.parts.metric.wins import ReferenceWins

__all__ = [
    "AnswerPerplexity",
    "BestOfN",
    "ClipBias",
    "Diversity",
    "EntropyPair",
    "EntropyProfile",
    "PairwiseAccuracy",
    "PotentialWatch",
    "ReferenceWins",
    "ReportMean",
    "SemanticEntropy",
    "TurnCost",
    "VoteQuality",
    "WeightedVote",
]
