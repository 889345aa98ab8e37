"""Annotate: columns about the rollouts, written before the reward parts run.

An annotate part reads texts, tokens, signals of models, what memories recall and the world's `rollout.reward`. It
writes columns for later stages: marks on tokens, features of answers, values of critics, baselines. It writes no
reward.
"""

from podium.parts.annotate.answer_value import AnswerValue
from podium.parts.annotate.decision import FirstTokenEntropy, OptionEntropy
from podium.parts.annotate.degenerate import MarkDegenerate, MarkTrailingText
from podium.parts.annotate.evidence import EvidenceRubrics
from podium.parts.annotate.feedback_gain import FeedbackGain
from podium.parts.annotate.forms_used import FormsUsed
from podium.parts.annotate.greedy_baseline import GreedyBaseline
from podium.parts.annotate.marks import MarkPattern, MarkPhrases
from podium.parts.annotate.match_patterns import MatchPatterns
from podium.parts.annotate.messages import CountMessages
from podium.parts.annotate.mismatched import MismatchedAnswers, MismatchedKL
from podium.parts.annotate.model_scores import ModelScores
from podium.parts.annotate.noise_anchors import NoiseAnchors
from podium.parts.annotate.overlap import EvidenceOverlap
from podium.parts.annotate.parsed import MarkParsed
from podium.parts.annotate.plan_values import PlanValues
from podium.parts.annotate.random_blocks import RandomBlocks
from podium.parts.annotate.reference_power import ReferencePower
from podium.parts.annotate.score_vector import ScoreVector
from podium.parts.annotate.searches import CountSearches, ReadSearchTags
from podium.parts.annotate.simulated_feedback import SimulatedFeedback
from podium.parts.annotate.step_potential import StepPotential
from podium.parts.annotate.tags import ReadTags
from podium.parts.annotate.thinking_moments import ThinkingMoments
from podium.parts.annotate.turn_critic import TurnCritic

__all__ = [
    "AnswerValue",
    "CountMessages",
    "CountSearches",
    "EvidenceOverlap",
    "EvidenceRubrics",
    "FeedbackGain",
    "FirstTokenEntropy",
    "FormsUsed",
    "GreedyBaseline",
    "MarkDegenerate",
    "MarkParsed",
    "MarkTrailingText",
    "MarkPattern",
    "MarkPhrases",
    "MatchPatterns",
    "ModelScores",
    "NoiseAnchors",
    "MismatchedAnswers",
    "MismatchedKL",
    "OptionEntropy",
    "PlanValues",
    "RandomBlocks",
    "ReadSearchTags",
    "ReadTags",
    "ReferencePower",
    "ScoreVector",
    "SimulatedFeedback",
    "StepPotential",
    "ThinkingMoments",
    "TurnCritic",
]
