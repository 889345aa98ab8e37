"""Low-rank adapters (LoRA) through peft: small trained matrices beside frozen weights."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from torch import Tensor, nn

from podium.core.errors import PodiumError

__all__ = ["attach", "attached", "split"]

DEFAULTS: dict[str, Any] = {"r": 8, "target_modules": "all-linear"}


def attach(model: nn.Module, settings: Mapping[str, Any]) -> nn.Module:
    """Add adapters to the model's linear layers and freeze the rest. Settings are those of peft.LoraConfig."""
    try:
        peft: Any = import_module("peft")
    except ImportError as error:
        raise PodiumError("LoRA needs the package peft: pip install 'podium-rl[lora]'.") from error
    chosen = {**DEFAULTS, **settings}
    chosen.setdefault("lora_alpha", 2 * chosen["r"])
    if chosen.get("lora_dropout", 0.0):
        raise PodiumError(
            "lora_dropout must be 0: with dropout the policy that is trained is not the one that was sampled from."
        )
    try:
        config = peft.LoraConfig(**chosen, bias="none")
        adapted: nn.Module = peft.inject_adapter_in_model(config, model)
    except (TypeError, ValueError) as error:
        raise PodiumError(f"These LoRA settings do not work: {error}") from error
    for name, parameter in adapted.named_parameters():
        parameter.requires_grad_("lora_" in name)
    return adapted


def attached(model: nn.Module) -> bool:
    """Whether the model has adapters."""
    return any("lora_" in name for name, _ in model.named_parameters())


def split(model: nn.Module) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The weights with adapters merged in, by the names of the model without adapters; and the adapters' tensors."""
    merged: dict[str, Tensor] = {}
    adapters: dict[str, Tensor] = {}
    modules: dict[str, Any] = dict(model.named_modules())
    for name, parameter in model.named_parameters():
        if "lora_" in name:
            adapters[name] = parameter.data
            continue
        owner, _, last = name.rpartition(".")
        plain = owner.removesuffix(".base_layer")
        weight = parameter.data
        if plain != owner and last == "weight":
            layer = modules[plain]
            for adapter in layer.active_adapters:
                weight = weight + layer.get_delta_weight(adapter).to(weight)
        merged[f"{plain}.{last}"] = weight
    return merged, adapters
