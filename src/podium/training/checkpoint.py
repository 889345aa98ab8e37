"""Checkpoints: weights, optimiser state and memories, so that a resumed run continues bit by bit.

Random numbers are counters keyed by seed and iteration, so there is no generator state to save.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from podium.core.errors import PodiumError
from podium.core.memory import State, decode_state, encode_state
from podium.training.trainer import Learner, Trainer

__all__ = ["check_memories", "load_checkpoint", "save_checkpoint"]


def save_checkpoint(
    directory: Path, iteration: int, trainer: Trainer, memories: Mapping[str, State], progress: State | None = None
) -> None:
    """Fill `directory`, which the caller makes appear atomically. `progress`: how far a method in phases has come."""
    for name, learner in trainer.learners.items():
        learner.policy.save(directory / name)
        save_file(_optimizer_tensors(learner), directory / f"{name}.optimizer.safetensors")
    for name in trainer.decays:
        trainer.roles[name].save(directory / name)
    tensors: dict[str, torch.Tensor] = {}
    encoded = {name: encode_state(state, tensors, name) for name, state in memories.items()}
    if tensors:
        save_file(tensors, directory / "memories.safetensors")
    state = {
        "iteration": iteration,
        "learners": trainer.state(),
        "memories": encoded,
        "progress": encode_state(progress or {}, tensors),
    }
    (directory / "state.json").write_text(json.dumps(state))


def load_checkpoint(directory: Path, trainer: Trainer) -> tuple[int, dict[str, State], State]:
    """Put a checkpoint's weights and optimiser state into the trainer; returns iteration, memories and progress."""
    try:
        state = json.loads((directory / "state.json").read_text())
        for name, learner in trainer.learners.items():
            learner.policy.load(directory / name)
            _load_optimizer(learner, load_file(directory / f"{name}.optimizer.safetensors"))
            learner.updates = state["learners"][name]["updates"]
        for name in trainer.decays:
            trainer.roles[name].load(directory / name)
        file = directory / "memories.safetensors"
        tensors = load_file(file) if file.exists() else {}
    except (OSError, KeyError, json.JSONDecodeError, SafetensorError, PodiumError) as error:
        raise PodiumError(
            f"The checkpoint {directory} cannot be read: {error}. Delete it to resume from the one before."
        ) from error
    memories = {name: decode_state(data, tensors) for name, data in state["memories"].items()}
    return state["iteration"], memories, decode_state(state["progress"], tensors)


def check_memories(directory: Path, loaded: Mapping[str, State], initial: Mapping[str, State], method: str) -> None:
    """Refuse the memories of another method: those of this one have the names and entries of its initial states."""
    held = {name: state for name, state in loaded.items() if name != "surplus"}  # any method may carry groups over
    if held.keys() != initial.keys() or any(initial[name].keys() - held[name].keys() for name in initial):
        theirs, ours = (", ".join(sorted(names)) or "nothing" for names in (held, initial))
        raise PodiumError(
            f"The checkpoint {directory} was not written by {method}: it remembers {theirs}, as another method or "
            f"version does, and not {ours}. Put back the config.yaml that it was made with, or start a new run (--out)."
        )


def _optimizer_tensors(learner: Learner) -> dict[str, torch.Tensor]:
    state: dict[int, dict[str, Any]] = learner.optimizer.state_dict()["state"]
    return {
        f"{i}.{key}": torch.as_tensor(value).contiguous() for i, entry in state.items() for key, value in entry.items()
    }


def _load_optimizer(learner: Learner, tensors: Mapping[str, torch.Tensor]) -> None:
    full = learner.optimizer.state_dict()
    state: dict[int, dict[str, torch.Tensor]] = {}
    for name, value in tensors.items():
        number, _, key = name.partition(".")
        state.setdefault(int(number), {})[key] = value
    learner.optimizer.load_state_dict({"state": state, "param_groups": full["param_groups"]})
