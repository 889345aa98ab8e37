"""Low-rank adapters (LoRA) through peft: small trained matrices beside frozen weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from podium.core.errors import PodiumError

__all__ = ["Adapter", "attach", "attached", "base_of", "split"]

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


@dataclass(frozen=True)
class Adapter:
    """A low-rank matrix that is added to a weight: W + scale · up · down."""

    down: nn.Parameter  # [rank, inputs]
    up: nn.Parameter  # [outputs, rank]
    scale: float

    def folded(self, weight: Tensor) -> Tensor:
        """The weight with the adapter added, in float32 or the weight's own higher precision."""
        wide = torch.promote_types(weight.dtype, torch.float32)
        return torch.addmm(weight.to(wide), self.up.to(wide), self.down.to(wide), alpha=self.scale)


def base_of(module: nn.Module) -> tuple[nn.Linear, Adapter | None] | None:
    """The plain linear layer of a module, and its adapter; None where the two are not simply a sum of products."""
    if type(module) is nn.Linear:
        return module, None
    layer: Any = module
    base: Any = getattr(layer, "base_layer", None)
    active: list[str] = list(getattr(layer, "active_adapters", ()))
    if type(base) is not nn.Linear or len(active) != 1 or active[0] not in getattr(layer, "lora_A", {}):
        return None
    name = active[0]
    down, up = layer.lora_A[name], layer.lora_B[name]
    variants = getattr(layer, "lora_variant", {})  # such as DoRA
    if name in variants or down.bias is not None or up.bias is not None or layer.merged:
        return None
    return base, Adapter(down.weight, up.weight, float(layer.scaling[name]))


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
