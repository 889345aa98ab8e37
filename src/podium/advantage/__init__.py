"""The advantage stage: who deserves credit, and how much."""

from podium.advantage.bundles import QuantileTracker, RiskBundles
from podium.advantage.forest import BoundaryDifference, FinalBaseline, NodeDifference, PositionDifference
from podium.advantage.gain import GainReturns, GatedGain
from podium.advantage.halves import Halves
from podium.advantage.hierarchical import HierarchicalGAE
from podium.advantage.jensen import JensenGap
from podium.advantage.mixture import Comparison, Mixture
from podium.advantage.normalize import Normalize
from podium.advantage.pairwise import PairwiseDifferences
from podium.advantage.potential import PotentialCredit, PotentialWatch
from podium.advantage.prior import ShrunkBaseline
from podium.advantage.replayed import DampReplayed
from podium.advantage.returns import GAE, Returns
from podium.advantage.seats import SeatReturns
from podium.advantage.states import GroupInGroup, NestedHistories
from podium.advantage.suffix import SuffixSums, TwoSources
from podium.advantage.token_weighted import TokenWeighted
from podium.advantage.tracker import StoredResponses, SuccessPrior, SuccessTracker

__all__ = [
    "GAE",
    "BoundaryDifference",
    "Comparison",
    "DampReplayed",
    "FinalBaseline",
    "GainReturns",
    "GatedGain",
    "GroupInGroup",
    "Halves",
    "HierarchicalGAE",
    "JensenGap",
    "Mixture",
    "NestedHistories",
    "NodeDifference",
    "Normalize",
    "PairwiseDifferences",
    "PositionDifference",
    "PotentialCredit",
    "PotentialWatch",
    "QuantileTracker",
    "Returns",
    "RiskBundles",
    "SeatReturns",
    "ShrunkBaseline",
    "StoredResponses",
    "SuccessPrior",
    "SuccessTracker",
    "SuffixSums",
    "TokenWeighted",
    "TwoSources",
]
