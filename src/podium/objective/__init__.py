"""The objective stage: terms that add up, and the plan of the updates."""

from podium.objective.answer import DirectLikelihood
from podium.objective.apart import Apart
from podium.objective.band import BandPenalty
from podium.objective.bellman import BellmanRegression
from podium.objective.classify import GroupContrast, GroupSoftmax, RolloutLogistic, RolloutRegression
from podium.objective.constraint import StayWithin
from podium.objective.distil import Distil
from podium.objective.entropy import CovarianceEntropy, Entropy, EntropyTarget
from podium.objective.flow import FlowMatch
from podium.objective.gradient import Forward, Step, backward
from podium.objective.guide import Guide
from podium.objective.kl_control import AsymmetricKL, EntropyGatedKL
from podium.objective.plan_value import PlanValueLoss, PlanValues
from podium.objective.preference import Preference, Quality, RewardShift
from podium.objective.quality import QualityLoss
from podium.objective.regularize import KL, Likelihood, ValueLoss
from podium.objective.shaped import Shaped
from podium.objective.surrogate import Clip, PolicyGradient, Target
from podium.objective.term import Aggregate, Term
from podium.objective.turn_critic import TokenBaseline, TokenBaselineLoss, TurnCritic, TurnCriticLoss, TurnQ
from podium.objective.turn_updates import TurnByTurn
from podium.objective.updates import CriticFirst, Updates
from podium.objective.value import AnswerValue, AnswerValueLoss

__all__ = [
    "KL",
    "Aggregate",
    "AnswerValue",
    "AnswerValueLoss",
    "Apart",
    "AsymmetricKL",
    "BandPenalty",
    "BellmanRegression",
    "Clip",
    "CovarianceEntropy",
    "CriticFirst",
    "DirectLikelihood",
    "Distil",
    "Entropy",
    "EntropyGatedKL",
    "EntropyTarget",
    "FlowMatch",
    "Forward",
    "GroupContrast",
    "GroupSoftmax",
    "Guide",
    "Likelihood",
    "PlanValueLoss",
    "PlanValues",
    "PolicyGradient",
    "Preference",
    "Quality",
    "QualityLoss",
    "RewardShift",
    "RolloutLogistic",
    "RolloutRegression",
    "Shaped",
    "StayWithin",
    "Step",
    "Target",
    "Term",
    "TokenBaseline",
    "TokenBaselineLoss",
    "TurnByTurn",
    "TurnCritic",
    "TurnCriticLoss",
    "TurnQ",
    "Updates",
    "ValueLoss",
    "backward",
]
