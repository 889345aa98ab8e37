"""The advantage stage: who deserves credit, and how much."""

from podium.advantage.bundles import QuantileTracker, RiskBundles
from podium.advantage.normalize import Normalize
from podium.advantage.pairwise import PairwiseDifferences
from podium.advantage.returns import GAE, Returns
from podium.advantage.states import GroupInGroup, NestedHistories
from podium.advantage.tracker import SuccessTracker

__all__ = [
    "GAE",
    "GroupInGroup",
    "NestedHistories",
    "Normalize",
    "PairwiseDifferences",
    "QuantileTracker",
    "Returns",
    "RiskBundles",
    "SuccessTracker",
]
