"""A model's weights on disk: safetensors in a Hugging Face directory."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from podium.core.errors import PodiumError
from podium.policy.model import lora
from podium.policy.model.finite import check_finite
from podium.store.tables import read_tensors

if TYPE_CHECKING:
    from podium.policy.policy import Policy

__all__ = ["load_weights", "plain_weights", "save_weights"]

MODEL, EXTRA = "model.safetensors", "podium.safetensors"


def save_weights(policy: Policy, path: Path) -> None:
    """Write the model as other tools load it (adapters merged), and in EXTRA what only Podium reads: adapters, a value
    head."""
    model: Any = policy.model
    plain, extra = _split(policy)
    check_finite(policy.name or "The model", [*plain.items(), *extra.items()])
    path.mkdir(parents=True, exist_ok=True)
    save_file(plain, path / MODEL, metadata={"format": "pt"})
    if extra:
        save_file(extra, path / EXTRA)
    model.config.save_pretrained(path)
    if getattr(model, "generation_config", None) is not None:
        # Written directly: saving through the class refuses settings that it only warns about when loading.
        (path / "generation_config.json").write_text(model.generation_config.to_json_string())
    policy.tokenizer.save_pretrained(path)


def plain_weights(policy: Policy) -> dict[str, Tensor]:
    """The weights by the names that other tools use; adapters are merged."""
    return _split(policy)[0]


def load_weights(policy: Policy, path: Path) -> None:
    """Copy the weights of a directory into the policy's own tensors."""
    tensors: dict[str, Tensor] = {}
    for name in (MODEL, EXTRA):
        file = path / name
        if name == MODEL and not file.is_file():
            raise PodiumError(f"{path} has no {MODEL}.")
        if file.is_file():
            tensors |= read_tensors(file)
    plain, extra = _split(policy)
    adapters = lora.attached(policy.model)
    wanted = extra if adapters else {**plain, **extra}
    for name, mine in wanted.items():
        stored = tensors.get(name)
        if stored is None or stored.shape != mine.shape:
            shape = "nothing" if stored is None else f"shape {tuple(stored.shape)}"
            raise PodiumError(f"{path} does not fit the model: {name} has shape {tuple(mine.shape)}, the file {shape}.")
    check_finite(str(path), ((name, tensors[name]) for name in wanted))
    with torch.no_grad():
        for name, mine in wanted.items():
            mine.copy_(tensors[name])


def _split(policy: Policy) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The Hugging Face model's tensors by their own names (with adapters: merged copies), and all others."""
    mine = {name: p.data for name, p in policy.model.named_parameters()}
    kept = policy.model.state_dict()
    mine |= {name: b for name, b in policy.model.named_buffers() if name in kept}
    extra = {name: p.data for name, p in policy.named_parameters() if name not in mine}
    if lora.attached(policy.model):
        merged, adapters = lora.split(policy.model)
        return merged, {**adapters, **extra}
    return mine, extra
