"""Advantage: credit for rollouts, steps or tokens, relative to a baseline.

An advantage part reads rewards, and values of critics where it has any, and writes `LEVEL.advantage` at the level at
which the method credits; parts with a critic also write the returns that it learns from. A method has one of them.
"""

from podium.parts.advantage.action_rewards import ActionRewards
from podium.parts.advantage.aligned import AlignedReturns
from podium.parts.advantage.bundles import RiskBundles
from podium.parts.advantage.counterfactual import CounterfactualGain
from podium.parts.advantage.edge_success import EdgeSuccess
from podium.parts.advantage.halves import SplitHalves
from podium.parts.advantage.hierarchical import HierarchicalGAE
from podium.parts.advantage.information_gain import GainReturns, GatedGain
from podium.parts.advantage.jensen import JensenGap
from podium.parts.advantage.mixture import Mixture, MixtureComponent
from podium.parts.advantage.normalize import Normalize
from podium.parts.advantage.normalize_each import NormalizeEach
from podium.parts.advantage.pairwise import PairwiseDifferences
from podium.parts.advantage.potential import PotentialCredit
from podium.parts.advantage.prefix_credit import PrefixCredit
from podium.parts.advantage.replayed import DampReplayed
from podium.parts.advantage.returns import GAE, Returns
from podium.parts.advantage.seats import SeatReturns
from podium.parts.advantage.shrunk_baseline import ShrunkBaseline
from podium.parts.advantage.states import GroupInGroup, NestedHistories
from podium.parts.advantage.suffix import SuffixSums, TwoSources
from podium.parts.advantage.team_baseline import TeamBaseline
from podium.parts.advantage.token_weighted import TokenWeighted
from podium.parts.advantage.tree_differences import (
    BoundaryDifference,
    FinalBaseline,
    NodeDifference,
    PositionDifference,
)
from podium.parts.advantage.turn_q import TurnQ
from podium.parts.advantage.value_anchored import ValueAnchored

__all__ = [
    "ActionRewards",
    "AlignedReturns",
    "BoundaryDifference",
    "CounterfactualGain",
    "DampReplayed",
    "EdgeSuccess",
    "FinalBaseline",
    "GAE",
    "GainReturns",
    "GatedGain",
    "GroupInGroup",
    "HierarchicalGAE",
    "JensenGap",
    "Mixture",
    "MixtureComponent",
    "NestedHistories",
    "NodeDifference",
    "Normalize",
    "NormalizeEach",
    "PairwiseDifferences",
    "PositionDifference",
    "PotentialCredit",
    "PrefixCredit",
    "Returns",
    "RiskBundles",
    "SeatReturns",
    "ShrunkBaseline",
    "SplitHalves",
    "SuffixSums",
    "TeamBaseline",
    "TokenWeighted",
    "TurnQ",
    "TwoSources",
    "ValueAnchored",
]
