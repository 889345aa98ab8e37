"""Policies: loading models, and the signals that training asks of them."""

from podium.policy.critic import Critic, critic
from podium.policy.divergence import divergence as divergence
from podium.policy.embed import embed
from podium.policy.flow import Flow
from podium.policy.functionals import FUNCTIONALS, Rows, functional
from podium.policy.load import load
from podium.policy.policy import Policy
from podium.policy.quality import Quality
from podium.policy.rank import rank_dynamics as rank_dynamics
from podium.policy.reader import has_head, read_critic, values_of

__all__ = [
    "FUNCTIONALS",
    "NETWORKS",
    "Critic",
    "Flow",
    "Policy",
    "Quality",
    "Rows",
    "critic",
    "embed",
    "functional",
    "has_head",
    "load",
    "read_critic",
    "values_of",
]

# Sources of roles that are small networks on the policy's hidden states.
NETWORKS = {"flow": Flow, "quality": Quality}
