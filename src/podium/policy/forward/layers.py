"""Decoder blocks as views of a Hugging Face model's parameters; linear layers with the same input are joined."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from podium.policy.model.lora import base_of

__all__ = ["PaddedNorm", "JoinedLinear", "Layer", "gated", "normed"]


class _Joined(torch.autograd.Function):
    """y = x Wᵀ for a weight whose parts are several parameters, each of which receives its own gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, *parts: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.sizes = [p.shape[0] for p in parts]
        return F.linear(x, weight)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        (g,) = grads
        gx = g @ weight if ctx.needs_input_grad[0] else None
        if not any(ctx.needs_input_grad[2:]):
            return (gx, None, *[None] * len(ctx.sizes))
        return (gx, None, *(g.t() @ x).split(ctx.sizes))


class _Norm(torch.autograd.Function):
    """y = w · x / √(mean x² + ε), in float32 except for the last product, like the norms of the model families."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        wide = x.float()
        scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
        normed = (wide * scale).to(x.dtype)
        ctx.save_for_backward(normed, scale, weight)
        return normed * weight

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        normed, scale, weight = ctx.saved_tensors
        (g,) = grads
        g_weight = (g * normed).flatten(0, -2).sum(0) if ctx.needs_input_grad[1] else None
        inner = g * weight
        along = (inner * normed).mean(-1, keepdim=True)
        return torch.addcmul(inner, normed, along, value=-1).mul(scale).to(g.dtype), g_weight, None


class _Gated(torch.autograd.Function):
    """y = silu(a) · b for x = [a, b]."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        gate, up = x.chunk(2, -1)
        active = F.silu(gate)
        ctx.save_for_backward(x, active)
        return active * up

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        x, active = ctx.saved_tensors
        (g,) = grads
        gate, up = x.chunk(2, -1)
        out = torch.empty_like(x)
        g_gate, g_up = out.chunk(2, -1)
        torch.mul(g, active, out=g_up)
        g_gate.copy_(torch.ops.aten.silu_backward(g * up, gate))
        return out


def normed(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """w · x / √(mean x² + ε) over the last dimension."""
    result: Tensor = _Norm.apply(x, weight, eps)  # type: ignore[no-untyped-call]
    return result


def gated(x: Tensor) -> Tensor:
    """silu(a) · b of rows [a, b]."""
    result: Tensor = _Gated.apply(x)  # type: ignore[no-untyped-call]
    return result


class JoinedLinear:
    """Linear layers that read the same input, as one matrix product.

    Their weights are moved into one tensor and the parameters become views of it, so there is still one copy of them.
    """

    def __init__(self, modules: Sequence[nn.Module]) -> None:
        self.modules = list(modules)
        self.plain = all(type(m) is nn.Linear for m in self.modules)
        self.weight = torch.empty(0)
        self.bias: Tensor | None = None
        if self.plain:
            self._join()

    def _join(self) -> None:
        with torch.inference_mode(False), torch.no_grad():  # parameters must remain trainable
            self.weight = self._one([m.weight for m in self.modules])
            self.bias = self._one([m.bias for m in self.modules]) if self.modules[0].bias is not None else None

    @staticmethod
    def _one(parts: list[Any]) -> Tensor:
        whole = torch.cat([p.data for p in parts])
        for part, piece in zip(parts, torch.split(whole, [p.shape[0] for p in parts]), strict=True):
            part.data = piece
        return whole

    def sync(self) -> None:
        """Join again if the parameters have been given other storage, as moving a model does."""
        if not self.plain:
            return
        place = self.weight.data_ptr()
        for m in self.modules:
            weight: Any = m.weight
            if weight.data_ptr() != place or weight.dtype != self.weight.dtype:
                self._join()
                return
            place += weight.numel() * weight.element_size()

    def __call__(self, x: Tensor) -> Tensor:
        if not self.plain:  # adapters: each layer runs by itself
            return torch.cat([m(x) for m in self.modules], -1)
        if not torch.is_grad_enabled():
            return F.linear(x, self.weight, self.bias)
        y: Tensor = _Joined.apply(x, self.weight, *[m.weight for m in self.modules])  # type: ignore[no-untyped-call]
        biases: list[Any] = [m.bias for m in self.modules]
        return y if self.bias is None else y + torch.cat(biases)


class PaddedNorm:
    """A norm's weight padded with as many zeros, for the norm of [x, −x]. The parameter becomes a view of it."""

    def __init__(self, norm: Any) -> None:
        self.norm = norm
        self.weight = torch.empty(0)
        self._widen()

    def _widen(self) -> None:
        with torch.inference_mode(False), torch.no_grad():
            weight = self.norm.weight.data
            self.weight = torch.cat([weight, torch.zeros_like(weight)])
            self.norm.weight.data = self.weight[: weight.shape[0]]

    def sync(self) -> None:
        """Pad again if the parameter has been given other storage."""
        weight = self.norm.weight
        if weight.data_ptr() != self.weight.data_ptr() or weight.dtype != self.weight.dtype:
            self._widen()


class Layer:
    """One block's parameters."""

    def __init__(self, block: Any) -> None:
        attention, mlp = block.self_attn, block.mlp
        self.block = block
        self.qkv = JoinedLinear([attention.q_proj, attention.k_proj, attention.v_proj])
        self.gate_up = JoinedLinear([mlp.gate_proj, mlp.up_proj])
        self.out: nn.Module = attention.o_proj
        self.down: nn.Module = mlp.down_proj
        self.norm_in, self.norm_out = PaddedNorm(block.input_layernorm), PaddedNorm(block.post_attention_layernorm)
        self.q_norm = getattr(attention, "q_norm", None)
        self.k_norm = getattr(attention, "k_norm", None)

    @property
    def plain(self) -> bool:
        """Whether all linear layers are plain `nn.Linear`, without adapters."""
        return self.qkv.plain and self.gate_up.plain and type(self.out) is type(self.down) is nn.Linear

    @property
    def foldable(self) -> bool:
        """Whether all linear layers are plain, or plain ones with an adapter that can be added to their weights."""
        return all(base_of(module) is not None for module in self._linear)

    @property
    def bases(self) -> list[nn.Linear]:
        """The linear layers without their adapters."""
        return [base for base, _ in filter(None, map(base_of, self._linear))]

    @property
    def _linear(self) -> tuple[nn.Module, ...]:
        return (*self.qkv.modules, self.out, *self.gate_up.modules, self.down)
