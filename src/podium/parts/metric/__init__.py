"""Metric: what is reported besides the columns of the other stages.

A metric part reads any column or signal; it runs once per batch, or with every update if it depends on the current
policy. What it writes is averaged into the metrics of the iteration; nothing is trained on it.
"""

from podium.parts.metric.answer_perplexity import AnswerPerplexity
from podium.parts.metric.potential import PotentialWatch
from podium.parts.metric.turn_cost import TurnCost
from podium.parts.metric.votes import VoteQuality, WeightedVote

__all__ = ["AnswerPerplexity", "PotentialWatch", "TurnCost", "VoteQuality", "WeightedVote"]
