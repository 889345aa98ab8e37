"""TODO parts.metric"""

from podium.parts.metric.answer_perplexity import AnswerPerplexity
from podium.parts.metric.potential import PotentialWatch
from podium.parts.metric.turn_cost import TurnCost
from podium.parts.metric.votes import VoteQuality, WeightedVote

__all__ = ["AnswerPerplexity", "PotentialWatch", "TurnCost", "VoteQuality", "WeightedVote"]
