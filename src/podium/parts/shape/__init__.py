"""What happens to advantages before the loss: changed, weighted, masked, with clip bounds of their own."""

from podium.parts.shape.advantage_weights import AdvantageWeights
from podium.parts.shape.alternative import AlternativeAdvantage
from podium.parts.shape.better_of import BetterOf
from podium.parts.shape.centred import CentredKL
from podium.parts.shape.certainty import TeacherCertainty
from podium.parts.shape.confidence import ConfidenceShift, OverconfidentErrors
from podium.parts.shape.consistency import ConsistencyBlend
from podium.parts.shape.control import EntropyBand, EntropyGate
from podium.parts.shape.copies import ReplaceFlat, SmoothCopies
from podium.parts.shape.correction import SamplerCorrection, SamplerRejection
from podium.parts.shape.covariance import DropCovariant
from podium.parts.shape.damping import DampClipped
from podium.parts.shape.demonstration import AlignExpert, Contrast
from podium.parts.shape.difficulty import Hardness, LengthGate, ProgressFocus
from podium.parts.shape.edges import SharedEdges, SharedNodes
from podium.parts.shape.elastic import ElasticClip
from podium.parts.shape.entropy_change import DropDisruptive, SpareEntropy
from podium.parts.shape.heterogeneous import HeterogeneousTokens
from podium.parts.shape.hints import BySetting, HintConsistency
from podium.parts.shape.inherited import FromParent
from podium.parts.shape.latest_turn_q import LatestTurnQ
from podium.parts.shape.modulation import EntropyModulation
from podium.parts.shape.novelty import Novelty
from podium.parts.shape.pivot import DropPivot
from podium.parts.shape.plan_credit import PlanCredit
from podium.parts.shape.preference_weights import PreferenceWeights
from podium.parts.shape.rank import RankBonus
from podium.parts.shape.rejection import MarkNear, RejectFar, RejectLazy, RejectMismatch, WholeShares
from podium.parts.shape.rescale import Rescale, Whiten
from podium.parts.shape.shared import DropSure, DropUncredited, TakeSegments, TrainShared
from podium.parts.shape.shortest import HoldToShortest
from podium.parts.shape.steps import DropLongContexts, TrainSteps
from podium.parts.shape.tilt import KeepSign, PerplexityFactor, PositionBonus, Tilt, VirtualTemperature
from podium.parts.shape.token_baseline import TokenBaseline
from podium.parts.shape.tokens import BelowAnchor, SelectTokens
from podium.parts.shape.trajectories import MatchTrajectories
from podium.parts.shape.turn_band import TurnBand
from podium.parts.shape.uncertainty import CertaintyFactor, SelfCertainty, StatisticFactor, TokenPenalty
from podium.parts.shape.variance import KeepSpread
from podium.parts.shape.winners import MarkWinners

__all__ = [
    "FromParent",
    "AdvantageWeights",
    "MarkWinners",
    "LatestTurnQ",
    "AlignExpert",
    "BelowAnchor",
    "BetterOf",
    "AlternativeAdvantage",
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
    "EntropyBand",
    "EntropyGate",
    "EntropyModulation",
    "Hardness",
    "HeterogeneousTokens",
    "HintConsistency",
    "HoldToShortest",
    "KeepSign",
    "KeepSpread",
    "LengthGate",
    "MarkNear",
    "MatchTrajectories",
    "Novelty",
    "OverconfidentErrors",
    "PreferenceWeights",
    "PerplexityFactor",
    "PlanCredit",
    "PositionBonus",
    "ProgressFocus",
    "RankBonus",
    "RejectFar",
    "RejectLazy",
    "RejectMismatch",
    "ReplaceFlat",
    "Rescale",
    "SamplerCorrection",
    "SamplerRejection",
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
    "TokenBaseline",
    "TokenPenalty",
    "TrainShared",
    "TrainSteps",
    "TurnBand",
    "VirtualTemperature",
    "Whiten",
    "WholeShares",
]
