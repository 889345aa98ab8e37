"""The operations of a training pass besides attention: by Triton on a GPU, by plain torch elsewhere.

Numbers are read in the precision of their tensors, computed in float32 (or float64), and rounded once. On a GPU a sum
does not depend on what else is in the batch. On a CPU a library's products do not promise that, and in a low precision
the last bit of a sum occasionally becomes a large step: there products sum in float64, so that the order hardly
matters.
"""

from __future__ import annotations

import os
from functools import cache
from importlib import import_module
from types import ModuleType

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = [
    "add_linear",
    "add_product",
    "check",
    "gate_back",
    "gated",
    "give_up",
    "head_back",
    "head_read",
    "is_low",
    "join",
    "kernels_for",
    "linear",
    "norm_back",
    "normed",
    "product",
    "turn",
]


@cache
def _triton(name: str) -> ModuleType | None:
    """A module of kernels; None if Triton is not installed."""
    try:
        return import_module(f"podium.policy.cuda.{name}")
    except ImportError:
        return None


_failed: list[str] = []  # why the kernels are not used although Triton is installed


def check(device: torch.device) -> str | None:
    """Run the kernels once. If they fail, plain torch replaces them, and a note that says so is returned."""
    if _triton("kernels") is None:
        return "Triton is not installed: training on the GPU goes through plain torch, more slowly."
    if not _failed:
        try:
            x = torch.ones(16, 64, device=device)
            gated(normed(x, x[0], 1e-6, torch.bfloat16)[0]).sum().item()
        except Exception as error:  # whatever a compiler, a driver or a cache directory may raise
            return give_up(error)
    return None if not _failed else _said()


def give_up(error: Exception) -> str:
    """Replace all kernels by plain torch from now on; returns a note that says why."""
    _failed.append((str(error).strip() or type(error).__name__).splitlines()[0])
    return _said()


def _said() -> str:
    return f"Triton's kernels fail here ({_failed[0]}): training goes through plain torch, more slowly."


def kernels_for(x: Tensor, name: str = "kernels") -> ModuleType | None:
    """The kernels for such a tensor: on a GPU, or in Triton's interpreter; None: use plain torch."""
    if _failed:
        return None
    interpreted = os.environ.get("TRITON_INTERPRET") == "1" and x.dtype != torch.float64
    return _triton(name) if x.is_cuda or interpreted else None


def _wide(x: Tensor) -> Tensor:
    return x if x.dtype == torch.float64 else x.float()


def is_low(x: Tensor) -> bool:
    """Whether its precision is lower than float32."""
    return x.dtype not in (torch.float32, torch.float64)


def product(a: Tensor, b: Tensor) -> Tensor:
    """a b in float32, whatever the precision of the factors."""
    if not is_low(a):
        return a @ b
    return torch.mm(a, b, out_dtype=torch.float32) if a.is_cuda else (a.double() @ b.double()).float()


def add_product(x: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """x + a b for x in float32, whatever the precision of the factors."""
    if a.dtype == x.dtype:
        return torch.addmm(x, a, b)
    return torch.addmm(x, a, b, out_dtype=torch.float32) if a.is_cuda else x + product(a, b)


def linear(y: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """y weightᵀ + bias, in the precision of the factors."""
    kernels = kernels_for(y, "forward_kernels")
    if kernels is not None:
        return kernels.linear(y, weight, bias)
    return _applied(y, weight, bias).to(y.dtype) if is_low(y) else F.linear(y, weight, bias)


def add_linear(x: Tensor, y: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """x + y weightᵀ + bias for x in float32, whatever the precision of the factors."""
    kernels = kernels_for(y, "forward_kernels")
    if kernels is not None:
        return kernels.add_linear(x, y, weight, bias)
    if is_low(y):
        return x + _applied(y, weight, bias)
    return torch.addmm(x if bias is None else x + bias, y, weight.t())


def _applied(y: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """y weightᵀ + bias in float32."""
    z = product(y, weight.t())
    return z if bias is None else z + bias


def normed(x: Tensor, weight: Tensor, eps: float, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """w · x / √(mean x² + ε) of rows in `dtype`, and the factor 1 / √… of each row."""
    kernels = kernels_for(x)
    if kernels is not None:
        y, scale = torch.empty_like(x, dtype=dtype), torch.empty(x.shape[0], dtype=torch.float32, device=x.device)
        kernels.normed(x, weight, eps, y, scale)
        return y, scale
    wide = _wide(x)
    scale = torch.rsqrt(wide.square().mean(-1) + eps)
    return (wide * scale[:, None] * _wide(weight)).to(dtype), scale


def norm_back(
    g: Tensor, x: Tensor, scale: Tensor, weight: Tensor, residual: Tensor | None = None, again: bool = True
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The gradient of x (plus `residual`) in its own and in g's precision; that of w; the norm's output, recomputed."""
    kernels = kernels_for(x)
    if kernels is not None:
        gx, low, y = torch.empty_like(x), torch.empty_like(g), torch.empty_like(g)
        apart = g.dtype != x.dtype
        gw = kernels.norm_back(g, x, scale, weight, residual, gx, low if apart else None, y if again else None)
        return gx, low if apart else gx, gw.to(weight.dtype), y
    slope, unit, w = _wide(g), _wide(x) * scale[:, None], _wide(weight)
    inner = slope * w
    wide = (inner - unit * (inner * unit).mean(-1, keepdim=True)) * scale[:, None]
    wide = wide if residual is None else wide + residual
    return wide.to(x.dtype), wide.to(g.dtype), (slope * unit).sum(0).to(weight.dtype), (unit * w).to(g.dtype)


def gated(x: Tensor) -> Tensor:
    """silu(a) · b of rows [a, b]."""
    kernels = kernels_for(x)
    if kernels is not None:
        y = x.new_empty(x.shape[0], x.shape[1] // 2)
        kernels.gated(x, y)
        return y
    gate, up = _wide(x).chunk(2, -1)
    return (F.silu(gate) * up).to(x.dtype)


def gate_back(g: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """The gradient of [a, b], and silu(a) · b, recomputed."""
    kernels = kernels_for(x)
    if kernels is not None:
        gx, y = torch.empty_like(x), torch.empty_like(g)
        kernels.gate_back(g, x, gx, y)
        return gx, y
    (gate, up), slope = _wide(x).chunk(2, -1), _wide(g)
    active = F.silu(gate)
    down: Tensor = torch.ops.aten.silu_backward(slope * up, gate)
    return torch.cat([down, slope * active], -1).to(x.dtype), (active * up).to(g.dtype)


def turn(x: Tensor, cos: Tensor, sin: Tensor, position: Tensor, heads: int, back: bool = False) -> None:
    """Rotary embedding of the first `heads` heads of x [N, all heads, size], in place; or its transpose."""
    kernels, sign = kernels_for(x), -1.0 if back else 1.0
    if kernels is not None:
        kernels.turn(x, cos, sin, position, heads, sign)
        return
    a, b = _wide(x[:, :heads]).chunk(2, -1)
    c, s = (table.to(a.dtype).index_select(0, position)[:, None] for table in (cos, sin * sign))
    x[:, :heads] = torch.cat([a * c - b * s, b * c + a * s], -1).to(x.dtype)


def join(out: Tensor, total: Tensor, part: Tensor, own: Tensor, places: Tensor) -> None:
    """Combine attention outputs [N, heads, size] and log-sum-exps [heads, N] at `places` with those of other keys."""
    before = total[:, places]
    both = torch.logaddexp(before, own)
    first, second = ((t - both).exp().t()[:, :, None] for t in (before, own))
    out[places] = (_wide(out[places]) * first + _wide(part) * second).to(out.dtype)
    total[:, places] = both


def head_read(logits: Tensor, ids: Tensor, sharpness: float) -> tuple[Tensor, Tensor, Tensor]:
    """Of rows of logits times `sharpness`: the log-sum-exp, the entropy, and the value of one token."""
    kernels = kernels_for(logits)
    if kernels is not None:
        total, entropy, chosen = (torch.empty_like(logits[:, 0]) for _ in range(3))
        kernels.head_read(logits, ids, sharpness, total, entropy, chosen)
        return total, entropy, chosen
    value = logits * sharpness
    total = value.logsumexp(-1)
    p = (value - total[:, None]).exp()
    return total, total - (p * value).sum(-1), value.gather(-1, ids[:, None]).squeeze(-1)


def head_back(
    logits: Tensor,
    ids: Tensor,
    sharpness: float,
    total: Tensor,
    entropy: Tensor,
    by_logp: Tensor,
    by_entropy: Tensor,
    dtype: torch.dtype,
) -> Tensor:
    """The gradient of the logits, given those of the token's log-probability and of the entropy."""
    kernels = kernels_for(logits)
    if kernels is not None:
        slope = torch.empty_like(logits, dtype=dtype)
        kernels.head_back(logits, ids, total, entropy, by_logp, by_entropy, sharpness, slope)
        return slope
    log_p = logits * sharpness - total[:, None]
    p = log_p.exp()
    slope = -by_logp[:, None] * p - by_entropy[:, None] * p * (log_p + entropy[:, None])
    slope.scatter_add_(-1, ids[:, None], by_logp[:, None].to(slope.dtype))
    return (slope * sharpness).to(dtype)
