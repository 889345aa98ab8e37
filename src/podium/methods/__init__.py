"""Recipes: one short module a method, or a tight family. Each is a function whose defaults are the paper's."""

from podium.methods.actor_critic import ppo
from podium.methods.catalogue import CATALOGUE, Entry, get, recipe
from podium.methods.classify import real
from podium.methods.covariance import clip_cov_kl_cov
from podium.methods.group import dapo, dr_grpo, gpg, grpo, opo, rloo
from podium.methods.ratio import cispo, gspo
from podium.methods.reinforce import reinforce, reinforce_plus_plus, remax
from podium.methods.risk import riskpo
from podium.methods.single_stream import spo_single_stream
from podium.methods.states import gigpo, hgpo, salt
from podium.methods.think_rm import think_rm

__all__ = [
    "CATALOGUE",
    "Entry",
    "cispo",
    "clip_cov_kl_cov",
    "dapo",
    "dr_grpo",
    "get",
    "gigpo",
    "gpg",
    "grpo",
    "gspo",
    "hgpo",
    "opo",
    "ppo",
    "real",
    "recipe",
    "reinforce",
    "reinforce_plus_plus",
    "remax",
    "riskpo",
    "rloo",
    "salt",
    "spo_single_stream",
    "think_rm",
]
