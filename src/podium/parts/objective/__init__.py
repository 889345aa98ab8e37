"""Terms of the objective: the policy-gradient surrogate, penalties and bonuses, and the losses of other learners."""

from podium.parts.objective.answer import DirectLikelihood
from podium.parts.objective.answer_value import AnswerValueLoss
from podium.parts.objective.band import BandPenalty
from podium.parts.objective.bellman import BellmanRegression
from podium.parts.objective.classify import GroupContrast, GroupSoftmax, RolloutLogistic, RolloutRegression
from podium.parts.objective.clip import Clip, Target
from podium.parts.objective.constraint import StayWithin
from podium.parts.objective.distil import Distil
from podium.parts.objective.entropy import CovarianceEntropy, Entropy, EntropyTarget
from podium.parts.objective.feedback_model import FeedbackLoss, ReactionLoss
from podium.parts.objective.flow_match import FlowMatch
from podium.parts.objective.gate import GateLabels, GateSurrogate
from podium.parts.objective.guide import Guide
from podium.parts.objective.plan_value import PlanValueLoss
from podium.parts.objective.preference import Preference, Quality
from podium.parts.objective.prefix_value import PrefixValueLoss
from podium.parts.objective.quality import QualityLoss
from podium.parts.objective.regularize import KL, Likelihood, ValueLoss
from podium.parts.objective.shaped import Shaped
from podium.parts.objective.soft_region import DivergenceMask, SoftGate
from podium.parts.objective.step_kl import StepKL
from podium.parts.objective.surrogate import PolicyGradient
from podium.parts.objective.turn_critic import TokenBaselineLoss, TurnCriticLoss
from podium.parts.objective.yes_no import BernoulliKL

__all__ = [
    "AnswerValueLoss",
    "BandPenalty",
    "BellmanRegression",
    "BernoulliKL",
    "Clip",
    "CovarianceEntropy",
    "DirectLikelihood",
    "Distil",
    "DivergenceMask",
    "Entropy",
    "EntropyTarget",
    "FeedbackLoss",
    "FlowMatch",
    "GateLabels",
    "GateSurrogate",
    "GroupContrast",
    "GroupSoftmax",
    "Guide",
    "KL",
    "Likelihood",
    "PlanValueLoss",
    "PolicyGradient",
    "Preference",
    "PrefixValueLoss",
    "Quality",
    "QualityLoss",
    "ReactionLoss",
    "RolloutLogistic",
    "RolloutRegression",
    "Shaped",
    "SoftGate",
    "StayWithin",
    "StepKL",
    "Target",
    "TokenBaselineLoss",
    "TurnCriticLoss",
    "ValueLoss",
]
