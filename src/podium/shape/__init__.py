"""The shape stage: what happens to advantages, weights and clip bounds before the loss."""

from podium.shape.beside import Beside
from podium.shape.centred import CentredKL
from podium.shape.certainty import TeacherCertainty
from podium.shape.confidence import ConfidenceShift, OverconfidentErrors
from podium.shape.consistency import ConsistencyBlend
from podium.shape.control import EntropyAnchor, EntropyBand, EntropyGate, EntropySetpoint, GateState
from podium.shape.copies import ReplaceFlat, SmoothCopies
from podium.shape.correction import SamplerCorrection
from podium.shape.covariance import DropCovariant
from podium.shape.damping import DampClipped
from podium.shape.demonstration import AlignExpert, Contrast
from podium.shape.difficulty import Hardness, LengthGate, ProgressFocus
from podium.shape.edges import SharedEdges, SharedNodes
from podium.shape.elastic import ElasticClip
from podium.shape.entropy_change import DropDisruptive, SpareEntropy
from podium.shape.heterogeneous import EntropyScales, HeterogeneousTokens
from podium.shape.hints import BySetting, HintConsistency
from podium.shape.modulation import EntropyModulation
from podium.shape.novelty import Novelty
from podium.shape.pivot import DropPivot
from podium.shape.plan_credit import PlanCredit
from podium.shape.rank import RankBaselines, RankBonus
from podium.shape.rejection import RejectFar, RejectLazy, RejectMismatch, WholeShares
from podium.shape.rescale import Rescale, Whiten
from podium.shape.shared import DropSure, DropUncredited, TakeSegments, TrainShared
from podium.shape.shortest import HoldToShortest
from podium.shape.steps import DropLongContexts, TrainSteps
from podium.shape.tilt import KeepSign, PerplexityFactor, PositionBonus, Tilt, VirtualTemperature
from podium.shape.tokens import BelowAnchor, SelectTokens
from podium.shape.trajectories import MatchTrajectories, Trajectories
from podium.shape.turn_band import TurnBand, TurnEntropies
from podium.shape.uncertainty import CertaintyFactor, SelfCertainty, StatisticFactor, TokenPenalty
from podium.shape.variance import KeepSpread

__all__ = [
    "AlignExpert",
    "BelowAnchor",
    "Beside",
    "BySetting",
    "CentredKL",
    "CertaintyFactor",
    "ConfidenceShift",
    "ConsistencyBlend",
    "Contrast",
    "DampClipped",
    "DropCovariant",
    "DropDisruptive",
    "DropLongContexts",
    "DropPivot",
    "DropSure",
    "DropUncredited",
    "ElasticClip",
    "EntropyAnchor",
    "EntropyBand",
    "EntropyGate",
    "EntropyModulation",
    "EntropyScales",
    "EntropySetpoint",
    "GateState",
    "Hardness",
    "HeterogeneousTokens",
    "HintConsistency",
    "HoldToShortest",
    "KeepSign",
    "KeepSpread",
    "LengthGate",
    "MatchTrajectories",
    "Novelty",
    "OverconfidentErrors",
    "PerplexityFactor",
    "PlanCredit",
    "PositionBonus",
    "ProgressFocus",
    "RankBaselines",
    "RankBonus",
    "RejectFar",
    "RejectLazy",
    "RejectMismatch",
    "ReplaceFlat",
    "Rescale",
    "SamplerCorrection",
    "SelectTokens",
    "SelfCertainty",
    "SharedEdges",
    "SharedNodes",
    "SmoothCopies",
    "SpareEntropy",
    "StatisticFactor",
    "TakeSegments",
    "TeacherCertainty",
    "Tilt",
    "TokenPenalty",
    "TrainShared",
    "TrainSteps",
    "Trajectories",
    "TurnBand",
    "TurnEntropies",
    "VirtualTemperature",
    "Whiten",
    "WholeShares",
]
