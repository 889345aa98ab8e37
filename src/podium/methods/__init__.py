"""Recipes: one short module a method, or a tight family. Each is a function whose defaults are the paper's."""

from podium.methods.actor_critic import ppo, tppo
from podium.methods.agents import dr_kernel, himac, mars, slea_rl, vspo_prs
from podium.methods.baselines import canon, copo, lite_ppo, mc_grpo, ngrpo, v0_5
from podium.methods.branching import arpo, pivotrl, turn_control
from podium.methods.budgets import dars, v0, xrpo
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
from podium.methods.forest import arrol, cure, deepsearch, rose, spo
from podium.methods.group import dapo, dr_grpo, gpg, grpo, opo, rloo
from podium.methods.guidance import ampo, icpo, r3, rgr_grpo, ruscarl, scope
from podium.methods.hierarchy import archer, hiper
from podium.methods.hints import adhint, ghpo, hill, sage, scaf_grpo, seele
from podium.methods.latent import rlfr
from podium.methods.length import dler
from podium.methods.likelihood import likelihood_reward
from podium.methods.prefixes import prefix_grouper
from podium.methods.probes import spae
from podium.methods.process import implicit_prm, prl
from podium.methods.ratio import cispo, gspo
from podium.methods.raw_text import refine
from podium.methods.reinforce import reinforce, reinforce_plus_plus, remax
from podium.methods.replaying import skywork_r1v2, spear
from podium.methods.risk import riskpo
from podium.methods.scaling import t1
from podium.methods.selection import drive, insight, one_shot_rlvr, rulereasoner, vade
from podium.methods.semi_supervised import trapo
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
from podium.methods.votes import ettrl, ttrl, ttrv

__all__ = [
    "CATALOGUE",
    "Combination",
    "Entry",
    "a_grae",
    "ace",
    "adhint",
    "adora",
    "agentflow",
    "ampo",
    "archer",
    "ares_aepo",
    "arpo",
    "arrol",
    "bpo",
    "calibrl",
    "canon",
    "cispo",
    "clip_bias_spurious",
    "clip_cov_kl_cov",
    "combine",
    "confucius3_math",
    "copo",
    "cure",
    "d3s",
    "dapo",
    "dars",
    "dcpo_distribution",
    "deepsearch",
    "dler",
    "dr_grpo",
    "dr_kernel",
    "drive",
    "drpo",
    "earl_rtl",
    "empg",
    "entropy_discriminator_clip",
    "entropy_exchange_shaping",
    "epo",
    "etr",
    "ettrl",
    "gcpo_geometryzero",
    "get",
    "ghpo",
    "gigpo",
    "gpg",
    "grao",
    "grpo",
    "gspo",
    "hapo_heterogeneous",
    "hgpo",
    "hicra",
    "high_entropy_tokens",
    "hill",
    "himac",
    "hiper",
    "hpt",
    "icpo",
    "igpo",
    "implicit_prm",
    "infopo",
    "insight",
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
    "one_shot_rlvr",
    "opo",
    "pacs",
    "pear",
    "pivotrl",
    "ppo",
    "prefix_grouper",
    "prl",
    "progrpo",
    "qwenlong_aepo",
    "r3",
    "rapo_forward_kl",
    "real",
    "recipe",
    "refine",
    "reg_grpo",
    "reinforce",
    "reinforce_plus_plus",
    "remax",
    "rgr_grpo",
    "riskpo",
    "rlfr",
    "rloo",
    "rlvmr",
    "rose",
    "rover",
    "rulereasoner",
    "ruscarl",
    "safe_control",
    "sage",
    "salt",
    "scaf_grpo",
    "scope",
    "seele",
    "seeupo",
    "siren",
    "skywork_r1v2",
    "slea_rl",
    "spae",
    "spear",
    "spine",
    "spo",
    "spo_single_stream",
    "srgpo",
    "srpo",
    "st_ppo",
    "steer",
    "t1",
    "think_rm",
    "tppo",
    "trapo",
    "ttrl",
    "ttrv",
    "turn_control",
    "two_stage_negative",
    "ucas",
    "unlikeliness_reward",
    "v0",
    "v0_5",
    "vade",
    "verl_effective_rank",
    "vspo_prs",
    "xrpo",
]
