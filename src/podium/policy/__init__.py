"""Policies: loading models, and the signals that training asks of them."""

from podium.policy.critic import Critic, critic
from podium.policy.flow import Flow
from podium.policy.functionals import FUNCTIONALS, Rows, functional
from podium.policy.load import load
from podium.policy.policy import Policy
from podium.policy.rank import rank_dynamics as rank_dynamics

__all__ = ["FUNCTIONALS", "NETWORKS", "Critic", "Flow", "Policy", "Rows", "critic", "functional", "load"]

# Sources of roles that are small networks on the policy's hidden states.
NETWORKS = {"flow": Flow}
