"""Policies: loading models, and the signals that training asks of them."""

from podium.policy.critic import Critic, critic
from podium.policy.functionals import FUNCTIONALS, Rows, functional
from podium.policy.load import load
from podium.policy.policy import Policy

__all__ = ["FUNCTIONALS", "Critic", "Policy", "Rows", "critic", "functional", "load"]
