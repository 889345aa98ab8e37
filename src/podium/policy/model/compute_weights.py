"""The weights that passes compute with: the parameters themselves, or copies in a lower precision.

A model that is trained in bfloat16 keeps its parameters in float32, where small updates are not lost, and computes with
bfloat16 copies. The copies keep their addresses and are overwritten after an update, so that a CUDA graph of the
sampler that refers to them uses the new weights. Norms are small and are read in float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from podium.policy.forward.layers import Layer

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
    parameters: tuple[nn.Parameter, ...]  # that receive gradients: norms, then matrices and biases


class ComputeWeights:
    """The weights of all blocks, the embedding and the head."""

    def __init__(self, layers: Sequence[Layer], embedding: Any, norm: Any, head: Any, dtype: torch.dtype) -> None:
        self.dtype = dtype
        self._copies: dict[int, tuple[Tensor, Tensor]] = {}  # by the address of the original: original, copy
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
        out: Any = layer.out
        down: Any = layer.down
        joints = (layer.qkv, layer.gate_up)
        parameters = [layer.norm_in.norm.weight, layer.norm_out.norm.weight]
        parameters += [norm.weight for norm in (layer.q_norm, layer.k_norm) if norm is not None]
        for modules in (layer.qkv.modules, [out], layer.gate_up.modules, [down]):
            parameters += [m.weight for m in modules] + [m.bias for m in modules if m.bias is not None]
        return LayerWeights(
            layer.norm_in.norm.weight.data,
            self._of(joints[0].weight),
            self._of(joints[0].bias),
            None if layer.q_norm is None else layer.q_norm.weight.data,
            None if layer.k_norm is None else layer.k_norm.weight.data,
            self._of(out.weight),
            self._of(out.bias),
            layer.norm_out.norm.weight.data,
            self._of(joints[1].weight),
            self._of(joints[1].bias),
            self._of(down.weight),
            self._of(down.bias),
            tuple(parameters),
        )

    @torch.no_grad()
    def refresh(self) -> None:
        """Overwrite the copies with the parameters, in place."""
        if self._copies:
            originals, copies = zip(*self._copies.values(), strict=True)
            torch._foreach_copy_(copies, originals)

    def current(self) -> bool:
        """Whether the copies match the parameters, judged by two of them."""
        pairs = list(self._copies.values())
        looked_at = (pairs[len(pairs) // 2], pairs[-1]) if pairs else ()
        return all(torch.equal(original[:1].to(copy.dtype), copy[:1]) for original, copy in looked_at)
