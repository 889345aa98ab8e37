"""The weights that passes compute with: the parameters themselves, or copies in a lower precision.

A model that is trained in bfloat16 keeps its parameters in float32, where small updates are not lost, and computes with
bfloat16 copies. The copies keep their addresses and are overwritten after an update, so that a CUDA graph of the
sampler that refers to them uses the new weights. Norms are small and are read in float32. Of a weight with an adapter
the copy is their sum: sampler and trainer compute with the same weights, and passes cost no more than without adapters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from podium.policy.forward.layers import Layer
from podium.policy.model.lora import Adapter, base_of

__all__ = ["ComputeWeights", "LayerWeights"]


@dataclass(frozen=True)
class LayerWeights:
    """The weights of one block. Matrices are [outputs, inputs]."""

    norm_in: Tensor
    qkv: Tensor
    qkv_bias: Tensor | None
    q_norm: Tensor | None
    k_norm: Tensor | None
    out: Tensor
    out_bias: Tensor | None
    norm_out: Tensor
    gate_up: Tensor
    gate_up_bias: Tensor | None
    down: Tensor
    down_bias: Tensor | None
    parameters: tuple[nn.Parameter, ...]  # that receive gradients: norms, then matrices and biases, or adapters
    adapters: Mapping[str, tuple[Adapter | None, ...]]  # of the parts of each matrix; empty: matrices are trained


class ComputeWeights:
    """The weights of all blocks, the embedding and the head."""

    def __init__(self, layers: Sequence[Layer], embedding: Any, norm: Any, head: Any, dtype: torch.dtype) -> None:
        self.dtype = dtype
        self._copies: dict[int, tuple[Tensor, Tensor]] = {}  # by the address of the original: original, copy
        self._folded: list[tuple[Tensor, Tensor, Adapter | None]] = []  # a copy, what it copies, what is added
        self.embedding, self.head = self._of(embedding.weight), self._of(head.weight)
        self.head_bias = self._of(head.bias)
        self.norm: Tensor = norm.weight.data
        self.layers = [self._layer(layer) for layer in layers]

    def _of(self, parameter: Tensor | None) -> Any:
        """The parameter's own storage, or its copy in the compute precision."""
        if parameter is None or parameter.dtype == self.dtype:
            return None if parameter is None else parameter.data
        place = parameter.data_ptr()
        if place not in self._copies:
            with torch.inference_mode(False), torch.no_grad():
                self._copies[place] = (parameter.data, parameter.data.to(self.dtype))
        return self._copies[place][1]

    def _layer(self, layer: Layer) -> LayerWeights:
        parameters = [layer.norm_in.norm.weight, layer.norm_out.norm.weight]
        parameters += [norm.weight for norm in (layer.q_norm, layer.k_norm) if norm is not None]
        matrices: dict[str, list[Any]] = {
            "qkv": layer.qkv.modules,
            "out": [layer.out],
            "gate_up": layer.gate_up.modules,
            "down": [layer.down],
        }
        adapters: dict[str, tuple[Adapter | None, ...]] = {}
        if layer.plain:
            out, down = matrices["out"][0], matrices["down"][0]
            whole = {"qkv": layer.qkv, "out": out, "gate_up": layer.gate_up, "down": down}
            weights = {name: (self._of(m.weight), self._of(m.bias)) for name, m in whole.items()}
            for modules in matrices.values():
                parameters += [m.weight for m in modules] + [m.bias for m in modules if m.bias is not None]
        else:
            weights = {name: self._fold(modules) for name, modules in matrices.items()}
            adapters = {name: tuple(_parts(module)[1] for module in modules) for name, modules in matrices.items()}
            present = [a for parts in adapters.values() for a in parts if a is not None]
            parameters += [p for adapter in present for p in (adapter.down, adapter.up)]
        return LayerWeights(
            layer.norm_in.norm.weight.data,
            *weights["qkv"],
            None if layer.q_norm is None else layer.q_norm.weight.data,
            None if layer.k_norm is None else layer.k_norm.weight.data,
            *weights["out"],
            layer.norm_out.norm.weight.data,
            *weights["gate_up"],
            *weights["down"],
            tuple(parameters),
            adapters,
        )

    @torch.no_grad()
    def _fold(self, modules: Sequence[nn.Module]) -> tuple[Tensor, Tensor | None]:
        """The weights of modules with the same input as one matrix, with their adapters added; their biases."""
        parts = [_parts(module) for module in modules]
        bases = [base for base, _ in parts]
        with torch.inference_mode(False):
            weight = torch.cat([base.weight.data.to(self.dtype) for base in bases])
            biased = bases[0].bias is not None
            bias = torch.cat([base.bias.data for base in bases]).to(self.dtype) if biased else None
        places = torch.split(weight, [len(base.weight) for base in bases])
        for place, (base, adapter) in zip(places, parts, strict=True):
            self._folded.append((place, base.weight.data, adapter))
            _write_sum(place, base.weight.data, adapter)
        return weight, bias

    @torch.no_grad()
    def refresh(self) -> None:
        """Overwrite the copies with the parameters, in place."""
        if self._copies:
            originals, copies = zip(*self._copies.values(), strict=True)
            torch._foreach_copy_(copies, originals)
        for folded in self._folded:
            _write_sum(*folded)

    def current(self) -> bool:
        """Whether the copies match the parameters, judged by two of them."""
        pairs = list(self._copies.values())
        looked_at = (pairs[len(pairs) // 2], pairs[-1]) if pairs else ()
        return all(torch.equal(original[:1].to(copy.dtype), copy[:1]) for original, copy in looked_at)


def _parts(module: nn.Module) -> tuple[nn.Linear, Adapter | None]:
    """The linear layer and the adapter of a module that is known to have no more than these."""
    parts = base_of(module)
    assert parts is not None
    return parts


def _write_sum(place: Tensor, weight: Tensor, adapter: Adapter | None) -> None:
    """Write a weight with its adapter added; a weight without one never changes."""
    if adapter is not None:
        place.copy_(adapter.folded(weight))
