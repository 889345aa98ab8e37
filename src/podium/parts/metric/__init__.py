"""Metric: what is reported besides the columns of the other stages.

A metric part reads any column or signal; it runs once per batch, or with every update if it depends on the current
policy. What it writes is averaged into the metrics of the iteration; nothing is trained on it.
"""

from podium.parts.metric.answer_perplexity import AnswerPerplexity
from podium.parts.metric.clip_bias import ClipBias
from podium.parts.metric.decision_certainty import DecisionCertainty
from podium.parts.metric.diversity import Diversity
from podium.parts.metric.entropies import EntropyPair, EntropyProfile, SemanticEntropy
from podium.parts.metric.evidence_coverage import EvidenceCoverage
from podium.parts.metric.label_auc import LabelAUC
from podium.parts.metric.needless import NeedlessSearches
from podium.parts.metric.potential import PotentialWatch
from podium.parts.metric.process import BestOfN, PairwiseAccuracy
from podium.parts.metric.proxy_gap import ProxyGap
from podium.parts.metric.rank_agreement import RankAgreement
from podium.parts.metric.report_mean import ReportMean
from podium.parts.metric.reward_ties import RewardTies
from podium.parts.metric.self_knowledge import SelfKnowledge
from podium.parts.metric.states_visited import StatesVisited
from podium.parts.metric.steering import Steering
from podium.parts.metric.turn_cost import TurnCost
from podium.parts.metric.votes import VoteQuality, WeightedVote
from podium.parts.metric.wins import ReferenceWins

__all__ = [
    "SelfKnowledge",
    "LabelAUC",
    "AnswerPerplexity",
    "BestOfN",
    "ClipBias",
    "DecisionCertainty",
    "Diversity",
    "EntropyPair",
    "EntropyProfile",
    "EvidenceCoverage",
    "NeedlessSearches",
    "PairwiseAccuracy",
    "PotentialWatch",
    "ProxyGap",
    "RankAgreement",
    "ReferenceWins",
    "ReportMean",
    "RewardTies",
    "SemanticEntropy",
    "StatesVisited",
    "Steering",
    "TurnCost",
    "VoteQuality",
    "WeightedVote",
]
