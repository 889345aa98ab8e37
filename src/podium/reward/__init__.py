"""The reward stage: parts that write rewards."""

from podium.reward.baseline import GreedyBaseline
from podium.reward.length import Overlong
from podium.reward.penalty import SequenceKL, TokenReward

__all__ = ["GreedyBaseline", "Overlong", "SequenceKL", "TokenReward"]
