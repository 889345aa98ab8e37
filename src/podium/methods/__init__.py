"""Recipes: one short module a method, or a tight family. Each is a function whose defaults are the paper's."""

from podium.methods.actor_critic import ppo, tppo
from podium.methods.agents import dr_kernel, himac, mars, slea_rl, vspo_prs
from podium.methods.baselines import canon, copo, lite_ppo, mc_grpo, ngrpo, v0_5
from podium.methods.branching import arpo, pivotrl, turn_control
from podium.methods.catalogue import CATALOGUE, Entry, get, recipe
from podium.methods.certainty import ucas, verl_effective_rank
from podium.methods.classify import drpo, pacs, real, reg_grpo
from podium.methods.combination import Combination, combine
from podium.methods.confidence import ace, progrpo, unlikeliness_reward
from podium.methods.contrast import gcpo_geometryzero
from podium.methods.control import safe_control
from podium.methods.covariance import clip_cov_kl_cov
from podium.methods.demonstrations import calibrl, grao, hpt
from podium.methods.difficulty import a_grae, adora, confucius3_math
from podium.methods.distillation import srpo
from podium.methods.entropy_control import (
    ares_aepo,
    dcpo_distribution,
    light_if,
    qwenlong_aepo,
    rapo_forward_kl,
    siren,
    spine,
)
from podium.methods.exploration import empg, epo, igpo, infopo
from podium.methods.group import dapo, dr_grpo, gpg, grpo, opo, rloo
from podium.methods.hierarchy import archer, hiper
from podium.methods.latent import rlfr
from podium.methods.length import dler
from podium.methods.likelihood import likelihood_reward
from podium.methods.probes import spae
from podium.methods.process import implicit_prm, prl
from podium.methods.ratio import cispo, gspo
from podium.methods.raw_text import refine
from podium.methods.reinforce import reinforce, reinforce_plus_plus, remax
from podium.methods.risk import riskpo
from podium.methods.shaping import entropy_exchange_shaping, hicra, pear, two_stage_negative
from podium.methods.single_stream import spo_single_stream
from podium.methods.states import gigpo, hgpo, salt
from podium.methods.steps import agentflow, iterresearch_eapo, mapo, matchtir, rlvmr, srgpo
from podium.methods.studies import clip_bias_spurious, invisible_leash
from podium.methods.think_rm import think_rm
from podium.methods.tokens import (
    d3s,
    earl_rtl,
    entropy_discriminator_clip,
    hapo_heterogeneous,
    high_entropy_tokens,
    lp_reg,
    steer,
)
from podium.methods.trust_region import bpo, etr, luspo
from podium.methods.turn_updates import seeupo, st_ppo
from podium.methods.valuation import rover
from podium.methods.votes import ttrl

__all__ = [
    "CATALOGUE",
    "Combination",
    "Entry",
    "a_grae",
    "ace",
    "adora",
    "agentflow",
    "archer",
    "ares_aepo",
    "arpo",
    "bpo",
    "calibrl",
    "canon",
    "cispo",
    "clip_bias_spurious",
    "clip_cov_kl_cov",
    "combine",
    "confucius3_math",
    "copo",
    "d3s",
    "dapo",
    "dcpo_distribution",
    "dler",
    "dr_grpo",
    "dr_kernel",
    "drpo",
    "earl_rtl",
    "empg",
    "entropy_discriminator_clip",
    "entropy_exchange_shaping",
    "epo",
    "etr",
    "gcpo_geometryzero",
    "get",
    "gigpo",
    "gpg",
    "grao",
    "grpo",
    "gspo",
    "hapo_heterogeneous",
    "hgpo",
    "hicra",
    "high_entropy_tokens",
    "himac",
    "hiper",
    "hpt",
    "igpo",
    "implicit_prm",
    "infopo",
    "invisible_leash",
    "iterresearch_eapo",
    "light_if",
    "likelihood_reward",
    "lite_ppo",
    "lp_reg",
    "luspo",
    "mapo",
    "mars",
    "matchtir",
    "mc_grpo",
    "ngrpo",
    "opo",
    "pacs",
    "pear",
    "pivotrl",
    "ppo",
    "prl",
    "progrpo",
    "qwenlong_aepo",
    "rapo_forward_kl",
    "real",
    "recipe",
    "refine",
    "reg_grpo",
    "reinforce",
    "reinforce_plus_plus",
    "remax",
    "riskpo",
    "rlfr",
    "rloo",
    "rlvmr",
    "rover",
    "safe_control",
    "salt",
    "seeupo",
    "siren",
    "slea_rl",
    "spae",
    "spine",
    "spo_single_stream",
    "srgpo",
    "srpo",
    "st_ppo",
    "steer",
    "think_rm",
    "tppo",
    "ttrl",
    "turn_control",
    "two_stage_negative",
    "ucas",
    "unlikeliness_reward",
    "v0_5",
    "verl_effective_rank",
    "vspo_prs",
]
