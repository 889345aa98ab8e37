"""The models of a run: who plays which role, who learns, and in which precision."""

from __future__ import annotations

import os
from collections.abc import Mapping

import torch

from podium import policy as policies
from podium.core.signal import Signal
from podium.method import Role
from podium.policy import Policy
from podium.policy.model import device as devices
from podium.policy.model.load import DTYPES
from podium.training.config import Config
from podium.training.trainer import Learner

__all__ = ["cast", "learners", "others"]

SMALL = 5_000_000  # parameters: below, a step's products are too short to be shared out


def cast(config: Config) -> dict[str, Policy]:
    """The model of every role, the policy first."""
    method, dtype = config.method, config.precision
    lora = None if config.lora is None else {"r": config.lora}
    devices.find_device(config.device, DTYPES[dtype])  # refuses now what cannot compute so
    # What is trained keeps the precision of its file. Rounded first, every weight would stand in the middle between
    # two others of the lower precision, and nothing would be seen of small updates for a long time.
    exact = "float32" if lora is None else dtype
    policy = policies.load(config.model, dtype=exact, device=config.device, lora=lora)
    _few_threads(policy)
    # Roles are made before the first update: the reference is the policy as it was.
    models = {role.name: _model(policy, role, config) for role in method.roles if role.source != "critic"}
    models |= {role.name: models["critic"].frozen_copy() for role in method.roles if role.source == "critic"}
    return {"policy": policy} | models


def learners(models: Mapping[str, Policy], config: Config) -> dict[str, Learner]:
    """Those that are trained, each with its optimiser."""
    method = config.method
    trained = {"policy"} | {term.trains for m in method.leaves() for term in m.objective}
    rates = {role.name: config.optimizer.replace(lr=role.lr) for role in method.roles if role.lr is not None}
    lower = DTYPES[config.precision]
    return {n: Learner(models[n], rates.get(n, config.optimizer), lower) for n in models if n in trained}


def others(models: Mapping[str, Policy], learning: Mapping[str, Learner], config: Config) -> dict[str, Policy]:
    """Those that only answer, their weights rounded to the precision that they are used in."""
    found = {name: model for name, model in models.items() if name not in learning}
    for model in found.values():
        if model is not models["policy"]:
            model.narrow(DTYPES[config.precision])
    return found


def _model(policy: Policy, role: Role, config: Config) -> Policy:
    """The model of a role: a copy of the policy or one of its own, with a value head where a term asks for values."""
    if role.source in policies.NETWORKS:
        return policies.NETWORKS[role.source](policy)
    terms = [term for m in config.method.leaves() for term in m.objective if term.trains == role.name]
    own = role.source not in ("initial", "policy")
    if own and not terms and policies.has_head(role.source):
        return policies.read_critic(role.source, dtype=config.precision, device=config.device).frozen_copy()
    exact = "float32" if terms else config.precision
    model = policies.load(role.source, dtype=exact, device=config.device) if own else policy
    if any(isinstance(need, Signal) and need.name == "value" for term in terms for need in term.needs):
        return policies.critic(model, role.heads)
    if own or (role.source == "policy" and not terms and role.decay is None):
        return model  # the policy itself, as it is now: perhaps under other contexts
    return policy.copy() if terms else policy.frozen_copy()


def _few_threads(policy: Policy) -> None:
    """A small model on a CPU runs in one thread, unless the environment says otherwise: several would mostly wait."""
    small = sum(p.numel() for p in policy.parameters()) < SMALL
    if small and policy.device.type == "cpu" and "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1)
