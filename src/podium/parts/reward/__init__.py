"""Reward: how good each rollout, step or token was.

A reward part reads `rollout.reward`, at first the world's verdict, and other columns or signals. It writes
`rollout.reward`, `step.reward`, `turn.reward.NAME` or `token.reward.NAME` anew; parts run in the order of the method,
each on what the one before has left. What a part adds or subtracts is also written as `rollout.reward.NAME`, so that
the terms of a total can be told apart in the logs.
"""

from podium.parts.reward.answer_gain import AnswerGain
from podium.parts.reward.belief import BeliefGain
from podium.parts.reward.call_bonus import CallBonus
from podium.parts.reward.calls import MatchCalls
from podium.parts.reward.cascade import Cascade, RandomReward
from podium.parts.reward.choice_layout import ChoiceLayout
from podium.parts.reward.continuation import ContinuationReward
from podium.parts.reward.contrast import ColumnBonus, ContrastiveFeature, WeightedSum
from podium.parts.reward.decisive import DecisiveReward
from podium.parts.reward.difficulty_entropy import WindowReward
from podium.parts.reward.directional import DirectionalReward
from podium.parts.reward.evidence_purity import EvidencePurity
from podium.parts.reward.flow import FlowReward
from podium.parts.reward.gated import GatedMix
from podium.parts.reward.guided import GuidedBonus
from podium.parts.reward.hierarchical_reward import HierarchicalReward
from podium.parts.reward.hybrid import HybridReward
from podium.parts.reward.information import InformationReward, PhrasingStability
from podium.parts.reward.intrinsic import Intrinsic
from podium.parts.reward.judged import JudgedSearch
from podium.parts.reward.knowledge import KnowledgeBoundary
from podium.parts.reward.length import LengthBonus, LengthLimit, Overlong, WithinLength
from podium.parts.reward.likelihood import AnswerLikelihood
from podium.parts.reward.listener import ListenerReward
from podium.parts.reward.log_ratio import LogRatio
from podium.parts.reward.magnify import MagnifySuccess
from podium.parts.reward.meta_reasoning import MetaReasoning
from podium.parts.reward.model import ModelReward
from podium.parts.reward.option_similarity import OptionCertainty, SimilarityReward
from podium.parts.reward.override import OverrideReward, SignedReward
from podium.parts.reward.penalty import SequenceKL, TokenReward
from podium.parts.reward.phase import PhaseEntropy
from podium.parts.reward.planning import PlanPenalties
from podium.parts.reward.rank_discount import RankDiscount
from podium.parts.reward.rubric import Rubric
from podium.parts.reward.running import RunningNormalize
from podium.parts.reward.search import SearchScore
from podium.parts.reward.self_agreement import SelfAgreement
from podium.parts.reward.speed import Speedup
from podium.parts.reward.stages import AnswerBleu, ProgressiveReward
from podium.parts.reward.step_rewards import StepRewards
from podium.parts.reward.structure import BrevityBonus, RankTruncated
from podium.parts.reward.team import TeamReward
from podium.parts.reward.text_diversity import TextDiversity
from podium.parts.reward.tool_use import ToolUse
from podium.parts.reward.tried_tools import TriedTools
from podium.parts.reward.turn_rewards import ProgressReward, TurnPenalties
from podium.parts.reward.turning_points import TurningPoints
from podium.parts.reward.useful_searches import UsefulSearches
from podium.parts.reward.verdict import VerdictReward
from podium.parts.reward.vote import AnswerEntropy, Majority, PseudoLabel, VoteShare

__all__ = [
    "SelfAgreement",
    "UsefulSearches",
    "HierarchicalReward",
    "AnswerBleu",
    "AnswerEntropy",
    "AnswerGain",
    "AnswerLikelihood",
    "BeliefGain",
    "BrevityBonus",
    "CallBonus",
    "Cascade",
    "ChoiceLayout",
    "ColumnBonus",
    "ContinuationReward",
    "ContrastiveFeature",
    "DecisiveReward",
    "DirectionalReward",
    "EvidencePurity",
    "FlowReward",
    "GatedMix",
    "GuidedBonus",
    "HybridReward",
    "InformationReward",
    "Intrinsic",
    "JudgedSearch",
    "KnowledgeBoundary",
    "LengthBonus",
    "LengthLimit",
    "ListenerReward",
    "LogRatio",
    "MagnifySuccess",
    "Majority",
    "MatchCalls",
    "MetaReasoning",
    "ModelReward",
    "OptionCertainty",
    "Overlong",
    "OverrideReward",
    "PhaseEntropy",
    "PhrasingStability",
    "PlanPenalties",
    "ProgressReward",
    "ProgressiveReward",
    "PseudoLabel",
    "RandomReward",
    "RankDiscount",
    "RankTruncated",
    "Rubric",
    "RunningNormalize",
    "SearchScore",
    "SequenceKL",
    "SignedReward",
    "SimilarityReward",
    "Speedup",
    "StepRewards",
    "TeamReward",
    "TextDiversity",
    "TokenReward",
    "ToolUse",
    "TriedTools",
    "TurnPenalties",
    "TurningPoints",
    "VerdictReward",
    "VoteShare",
    "WeightedSum",
    "WindowReward",
    "WithinLength",
]
