"""The models of a run: which model has which role, which ones are trained, and in which precision."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

import torch

from podium import policy as policies
from podium.core.errors import PodiumError
from podium.core.ranks import ALONE, Ranks
from podium.core.signal import Signal
from podium.method import Role
from podium.policy import Policy
from podium.policy.model import device as devices
from podium.policy.model.action_tokens import start_actions
from podium.policy.model.load import DTYPES
from podium.store.run_directory import RunDirectory
from podium.store.sound_checkpoint import newest_sound
from podium.training.config import Config
from podium.training.learner import Learner

__all__ = ["frozen_models", "learners", "load_models"]

SMALL = 5_000_000  # parameters: the matrix products of a smaller model are too short to be shared between threads


def load_models(config: Config) -> dict[str, Policy]:
    """The model of every role, the policy first."""
    method, dtype = config.method, config.precision
    lora = None if config.lora is None else {"r": config.lora}
    devices.find_device(config.device, DTYPES[dtype])  # refuses a device that cannot compute in this precision
    # What is trained keeps the precision of its file. If it were rounded first, every weight would lie in the middle of
    # the interval that rounds to it, and small updates would show no effect for a long time.
    exact = "float32" if lora is None else dtype
    policy = policies.load(config.model, dtype=exact, device=config.device, lora=lora)
    _limit_threads(policy)
    formats = [m.rollout.format for m in method.leaves() if m.rollout is not None and m.rollout.format is not None]
    if spelled := {token: word for format in formats for token, word in format.spelled.items()}:
        start_actions(policy, spelled)
    # Roles are made before the first update: the reference is the policy as it was.
    models = {role.name: _model(policy, role, config) for role in method.roles if role.source != "critic"}
    models |= {role.name: models["critic"].frozen_copy() for role in method.roles if role.source == "critic"}
    models |= {name: policy.frozen_copy() for role in method.roles for name in role.copies[1:]}
    return {"policy": policy} | models


def learners(models: Mapping[str, Policy], config: Config, ranks: Ranks = ALONE) -> dict[str, Learner]:
    """The models that are trained, each with its optimiser."""
    method = config.method
    trained = {"policy"} | {term.trains for m in method.leaves() for term in m.objective}
    settings = {"policy": config.optimizer}
    for role in method.roles:
        lr = config.optimizer.lr * role.lr_ratio if role.lr is None else role.lr
        settings[role.name] = config.optimizer.replace(lr=lr)
    lower = DTYPES[config.precision]
    return {
        name: Learner(model, settings[name], lower, config.moments, config.shard and ranks.size > 1)
        for name, model in models.items()
        if name in trained
    }


def frozen_models(models: Mapping[str, Policy], trained: Mapping[str, Learner], config: Config) -> dict[str, Policy]:
    """The models that are not trained, their weights rounded to the precision that they are used in."""
    frozen = {name: model for name, model in models.items() if name not in trained}
    for model in frozen.values():
        if model is not models["policy"]:
            model.narrow(DTYPES[config.precision])
    return frozen


def _model(policy: Policy, role: Role, config: Config) -> Policy:
    """The model of a role: a copy of the policy or another model, with a value head where a term asks for values."""
    if role.source in policies.NETWORKS:
        return policies.NETWORKS[role.source](policy)
    terms = [term for m in config.method.leaves() for term in m.objective if term.trains == role.name]
    separate = role.source not in ("initial", "phase", "policy")
    if separate and not terms and policies.has_head(role.source):
        return policies.read_critic(role.source, dtype=config.precision, device=config.device).frozen_copy()
    exact = "float32" if terms else config.precision
    model = _loaded(role.source, exact, config.device) if separate else policy
    if not terms and "value" in _read(config, role.name):
        raise PodiumError(
            f"The role {role.name!r} scores rollouts, but {role.source!r} has no value head: name the directory of a "
            "reward model (podium rewards fit) or of a critic as its source."
        )
    if any(isinstance(need, Signal) and need.name == "value" for term in terms for need in term.needs):
        trained = policies.critic(model, role.heads)
        for parameter in trained.model.parameters():
            parameter.requires_grad_(parameter.requires_grad and not role.frozen)
        return trained
    if separate or (role.source == "policy" and not terms and role.decay is None):
        return model  # for the source "policy": the policy itself as it is now, perhaps in other contexts
    return policy.copy() if terms else policy.frozen_copy()


def _loaded(source: str, dtype: str, device: str) -> Policy:
    """A model, or that of a run's newest sound checkpoint."""
    checkpoints = RunDirectory(source).checkpoints()
    if not checkpoints:
        return policies.load(source, dtype=dtype, device=device)
    model, _ = newest_sound(checkpoints, lambda c: policies.load(str(c / "policy"), dtype=dtype, device=device))
    return model


def _read(config: Config, role: str) -> Iterable[str]:
    """The names of the signals that parts read of a role."""
    parts = (part for m in config.method.leaves() for part in m.parts())
    return (n.name for part in parts for n in part.needs if isinstance(n, Signal) and role in (n.of, n.role))


def _limit_threads(policy: Policy) -> None:
    """Run a small model on a CPU in one thread, unless the environment says otherwise: several would mostly wait."""
    small = sum(p.numel() for p in policy.parameters()) < SMALL
    if small and policy.device.type == "cpu" and "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1)
