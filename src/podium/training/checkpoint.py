"""Checkpoints: weights, optimiser state and memories, so that a resumed run continues bit by bit.

Random numbers are counters keyed by seed and iteration, so there is no generator state to save.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from podium.core.errors import PodiumError
from podium.core.memory import State, decode_state, encode_state
from podium.policy.model.finite import NonFiniteWeights
from podium.store.json_lines import read_object
from podium.store.manifest import DamagedCheckpoint, check_manifest
from podium.store.tables import read_tensors
from podium.training.learner import Learner
from podium.training.quantized_adam import state_shapes
from podium.training.trainer import Trainer

__all__ = ["Position", "check_memories", "load_checkpoint", "save_checkpoint"]

# Raised when a state is read whose keys, types or shapes are not those that were written.
MISSHAPEN = (PodiumError, OSError, KeyError, IndexError, TypeError, ValueError, AttributeError, RuntimeError)


@dataclass(frozen=True)
class Position:
    """Where a run stands, beside the weights and the state of its optimisers."""

    iteration: int
    memories: Mapping[str, State]
    progress: State  # how far a method in phases has come
    tokens: int = 0  # sampled so far; 0: not known, in checkpoints of earlier versions


def save_checkpoint(directory: Path, trainer: Trainer, position: Position, config: str) -> None:
    """Fill `directory`, which the caller makes appear atomically and with a manifest. `config`: that of the run."""
    try:
        for name, learner in trainer.learners.items():
            learner.policy.save(directory / name)
            save_file(_optimizer_tensors(learner), directory / f"{name}.optimizer.safetensors")
        for name in trainer.moving:
            trainer.roles[name].save(directory / name)
    except NonFiniteWeights as error:
        raise PodiumError(
            f"Training has diverged by iteration {position.iteration}: {error} Nothing was saved, and earlier "
            "checkpoints stay as they are. Train anew with a lower learning rate (--set optimizer.lr=…)."
        ) from error
    tensors: dict[str, torch.Tensor] = {}
    encoded = {name: encode_state(state, tensors, name) for name, state in position.memories.items()}
    if tensors:
        save_file(tensors, directory / "memories.safetensors")
    state = {
        "iteration": position.iteration,
        "learners": trainer.state(),
        "memories": encoded,
        "progress": encode_state(position.progress, tensors),
        "tokens": position.tokens,
        **({"pasts": {name: past.filled for name, past in trainer.pasts.items()}} if trainer.pasts else {}),
        "manifest": True,  # without it, a checkpoint that has lost its manifest would look like one that never had any
    }
    (directory / "state.json").write_text(json.dumps(state))
    (directory / "config.yaml").write_text(config, encoding="utf-8")


def load_checkpoint(directory: Path, trainer: Trainer) -> Position:
    """Put a checkpoint's weights and optimiser state into the trainer, if it is sound; returns the rest."""
    listed = check_manifest(directory)
    try:
        position, counts = _read_state(directory)
        _read_pasts(directory, trainer)
        for name, learner in trainer.learners.items():
            learner.policy.load(directory / name)
            _load_optimizer(learner, directory / f"{name}.optimizer.safetensors")
            learner.updates, learner.since = counts[name]
        for name in trainer.moving:
            trainer.roles[name].load(directory / name)
    except MISSHAPEN as error:
        reason = str(error) if isinstance(error, PodiumError) else f"{type(error).__name__} {error}"
        if not listed:
            raise DamagedCheckpoint(directory, reason) from error
        raise PodiumError(
            f"The checkpoint {directory} does not fit the run: {reason.rstrip('.')}. Put back the config.yaml that it "
            f"was made with ({directory / 'config.yaml'}), or start a new run (--out)."
        ) from error
    return position


def _read_pasts(directory: Path, trainer: Trainer) -> None:
    """How many copies of the policy each role has that is refreshed from it."""
    for name, past in trainer.pasts.items():
        filled = read_object(directory / "state.json")["pasts"][name]
        if type(filled) is not int or not 1 <= filled <= len(past.copies):
            raise PodiumError(f"state.json: {name!r} has {filled!r} copies of the policy, not 1 to {len(past.copies)}.")
        past.filled = filled


def check_memories(directory: Path, loaded: Mapping[str, State], initial: Mapping[str, State], method: str) -> None:
    """Refuse the memories of another method: those of this one have the names and entries of its initial states."""
    held = {name: state for name, state in loaded.items() if name != "surplus"}  # any method may carry groups over
    if held.keys() != initial.keys() or any(initial[name].keys() - held[name].keys() for name in initial):
        stored, expected = (", ".join(sorted(names)) or "nothing" for names in (held, initial))
        raise PodiumError(
            f"The checkpoint {directory} was not written by {method}: it remembers {stored}, as another method or "
            f"version does, and not {expected}. Put back the config.yaml that it was made with, or start a new run "
            "(--out)."
        )


def _read_state(directory: Path) -> tuple[Position, dict[str, tuple[int, int]]]:
    """What state.json and memories.safetensors hold, and the updates of each learner in all and when its optimiser was
    new."""
    state, file = read_object(directory / "state.json"), directory / "memories.safetensors"
    tensors = read_tensors(file) if file.exists() else {}
    memories = {name: decode_state(data, tensors) for name, data in state["memories"].items()}
    progress = decode_state(state["progress"], tensors)
    if any(not isinstance(entries, dict) for entries in (progress, *memories.values())):
        raise PodiumError("state.json: memories and progress must be objects.")
    learners = {name: (entry["updates"], entry.get("since", 0)) for name, entry in state["learners"].items()}
    counts = [state["iteration"], state.get("tokens", 0), *(count for pair in learners.values() for count in pair)]
    if any(type(count) is not int or not 0 <= count < 1 << 63 for count in counts):
        raise PodiumError("state.json: iteration, tokens and updates must be numbers from 0 on.")
    return Position(state["iteration"], memories, progress, state.get("tokens", 0)), learners


def _optimizer_tensors(learner: Learner) -> dict[str, torch.Tensor]:
    state: dict[int, dict[str, Any]] = learner.optimizer.state_dict()["state"]
    return {
        f"{i}.{key}": torch.as_tensor(value).contiguous() for i, entry in state.items() for key, value in entry.items()
    }


def _load_optimizer(learner: Learner, file: Path) -> None:
    state: dict[int, dict[str, torch.Tensor]] = {}
    for name, value in read_tensors(file).items():
        number, _, key = name.partition(".")
        state.setdefault(int(number), {})[key] = value
    trained = [p for group in learner.optimizer.param_groups for p in group["params"]]
    whole = state.keys() == set(range(len(trained))) and all(
        {name: value.shape for name, value in state[i].items()} == state_shapes(learner.optimizer, p)
        for i, p in enumerate(trained)
    )
    if state and not whole:
        raise PodiumError(f"{file} does not fit the model: its tensors are of other weights")
    groups: list[dict[str, Any]] = []
    for group in learner.optimizer.param_groups:
        count = sum(len(g["params"]) for g in groups)
        groups.append({**group, "params": list(range(count, count + len(group["params"])))})
    learner.optimizer.load_state_dict({"state": state, "param_groups": groups})
