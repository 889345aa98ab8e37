"""The decode step: one more token of every row, prepared for a fixed number of rows and keys.

On a small model the cost of a step is the number of operations, not their size. So everything that does not change from
step to step (views of weights and of the cache, index tables, the workspace) is made once, and the step itself is a
short list of operations on tensors of fixed shape: nothing is read back to the host.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

if TYPE_CHECKING:
    from podium.policy.forward.decoder import Decoder
    from podium.policy.forward.layers import JoinedLinear

__all__ = ["Cache", "DecodeStep"]

Apply = Callable[[Tensor], Tensor]
# A step has at least SHORTEST keys, and their number is a multiple of ROUND: below these sizes matrix products sum in
# another order, and the last bits would depend on what else is being sampled.
ROUND, SHORTEST = 16, 32


class Cache:
    """A static KV cache: one block of keys and values per row."""

    def __init__(self, decoder: Decoder, rows: int, prompt: int, written: int) -> None:
        self.decoder, self.rows, self.length = decoder, rows, -(-(prompt + written) // 64) * 64
        shape = (len(decoder.layers), 2, rows, decoder.kv_heads, self.length, decoder.head_size)
        # Zeros, not uninitialised memory: what lies beyond a row's end is multiplied by 0 and must be finite.
        self.data = torch.zeros(shape, dtype=decoder.dtype, device=decoder.device)
        self.work = torch.zeros((rows, 2 * decoder.width), dtype=decoder.dtype, device=decoder.device)

    def fits(self, rows: int, prompt: int, written: int) -> bool:
        return rows <= self.rows and prompt + written <= self.length

    def larger(self, rows: int, prompt: int, written: int) -> Cache:
        """A cache at least as large in every respect with the same content."""
        new = Cache(self.decoder, max(rows, self.rows), 0, max(prompt + written, self.length))
        new.data[:, :, : self.rows, :, : self.length] = self.data
        return new

    def vacate(self, rows: Sequence[int]) -> None:
        """Nothing to do: what the rows hold is overwritten."""

    def admit(
        self,
        rows: Sequence[int],
        keys: Tensor,
        values: Tensor,
        nodes: Sequence[NDArray[np.int64]],
        texts: Sequence[tuple[int, ...]],
    ) -> None:
        """Start rows with texts, whose tokens are `nodes` of keys and values [layers, nodes, kv, size]."""
        length = max(len(path) for path in nodes)
        index = np.zeros((len(rows), length), dtype=np.int64)
        for number, path in enumerate(nodes):
            index[number, : len(path)] = path
        device = self.data.device
        flat, place = torch.from_numpy(index.reshape(-1)).to(device), torch.tensor(rows, device=device)
        for kind, block in enumerate((keys, values)):
            layers, _, heads, size = block.shape
            taken = block.index_select(1, flat).view(layers, len(rows), length, heads, size)
            self.data[:, kind][:, place, :, :length] = taken.transpose(2, 3)

    def read(self, row: int, length: int) -> tuple[Tensor, Tensor]:
        """Keys and values [layers, length, kv, size] of the first tokens of a row."""
        keys, values = (self.data[:, kind, row, :, :length].transpose(1, 2).contiguous() for kind in (0, 1))
        return keys, values

    def move(self, source: Sequence[int], target: Sequence[int]) -> None:
        """Move rows from `source` to `target`."""
        a, b = torch.tensor(source, device=self.data.device), torch.tensor(target, device=self.data.device)
        self.data.index_copy_(2, b, self.data.index_select(2, a))

    @staticmethod
    def step_length(length: int) -> int:
        """For how many keys a step is prepared if no row is longer than `length`."""
        return max(-(-length // ROUND) * ROUND, SHORTEST)


class DecodeStep:
    """The decode step of the first `rows` rows of a cache, if none has more than `length` tokens.

    The residual stream x lives in the workspace beside −x: the layer norm of [x, −x] is the root-mean-square norm of x,
    since its mean is 0, and it is one operation instead of six.
    """

    def __init__(self, decoder: Decoder, cache: Cache, rows: int, length: int) -> None:
        d, self.rows = decoder, rows
        self.heads, self.kv, self.size = d.heads, d.kv_heads, d.head_size
        self.width, self.eps, self.scale, self.dtype = d.width, d.eps, d.scale, d.dtype
        self.both = cache.work[:rows]
        self.x, self.minus = self.both[:, : d.width], self.both[:, d.width :]
        device = d.device
        # [rows, 2 · kv] where the new keys and values of each row go in a layer's flat cache, without the position.
        place = torch.arange(2 * cache.rows * self.kv, device=device).view(2, cache.rows, self.kv) * cache.length
        self.place = place[:, :rows].transpose(0, 1).reshape(rows, -1)
        self.keys = torch.arange(length, device=device)
        self.never = torch.tensor(torch.finfo(d.dtype).min / 2, dtype=d.dtype, device=device)
        self.rope = torch.stack(d.rope(cache.length), 1).to(d.dtype)
        self.embedding = d.embedding
        # If the parameters have a higher precision than the step, it multiplies by their low-precision copies.
        lower = d.weights if d.lower is not None else None
        self.layers = [
            self._layer(d, layer, data, length, None if lower is None else lower.layers[number])
            for number, (layer, data) in enumerate(zip(d.layers, cache.data, strict=True))
        ]
        self.norm = d.padded_norm.weight
        self.head = _linear(d, d.head) if lower is None else _product(lower.head.t(), lower.head_bias)

    def _layer(self, decoder: Decoder, layer: Any, data: Tensor, length: int, lower: Any) -> tuple[Any, ...]:
        n, kv, size = self.rows, self.kv, self.size
        keys, values = (data[i, :n].view(n * kv, -1, size)[:, :length] for i in (0, 1))
        if lower is None:
            qkv, gate_up = _joint(decoder, layer.qkv), _joint(decoder, layer.gate_up)
            out, down = _residual(decoder, layer.out), _residual(decoder, layer.down)
        else:
            qkv, gate_up = _product(lower.qkv.t(), lower.qkv_bias), _product(lower.gate_up.t(), lower.gate_up_bias)
            out, down = _added(lower.out.t(), lower.out_bias), _added(lower.down.t(), lower.down_bias)
        return (
            layer.norm_in.weight,
            qkv,
            (layer.q_norm, layer.k_norm) if layer.q_norm is not None else None,
            data.view(-1, size),
            keys.transpose(1, 2),
            values,
            out,
            layer.norm_out.weight,
            gate_up,
            down,
        )

    def _norm(self, weight: Tensor) -> Tensor:
        torch.neg(self.x, out=self.minus)
        weight = weight.to(self.dtype)
        return F.layer_norm(self.both, (2 * self.width,), weight, None, self.eps)[:, : self.width]

    def __call__(self, ids: Tensor, position: Tensor) -> Tensor:
        """Logits [rows, vocabulary] after token ids[i] at position[i] of row i; its keys and values are written."""
        n, h, kv, size, x = self.rows, self.heads, self.kv, self.size, self.x
        turn = self.rope.index_select(0, position)
        cos, sin = turn[:, :1], turn[:, 1:]
        place = (self.place + position[:, None],)
        # [n · kv, 1, length]: effectively −∞ beyond the row's end, 0 before it.
        mask = ((self.keys > position.repeat_interleave(kv)[:, None]) * self.never)[:, None]
        x.copy_(self.embedding(ids))
        for norm_in, qkv, head_norms, flat, keys, values, out, norm_out, gate_up, down in self.layers:
            new = qkv(self._norm(norm_in)).view(n, h + 2 * kv, size)
            turned = new[:, : h + kv]
            if head_norms is not None:
                for part, norm in zip((new[:, :h], new[:, h : h + kv]), head_norms, strict=True):
                    part.copy_(F.rms_norm(part, (size,), norm.weight.to(self.dtype), self.eps))
            torch.addcmul(turned * cos, turned.roll(size // 2, -1), sin, out=turned)
            flat.index_put_(place, new[:, h:])
            score = torch.baddbmm(mask, new[:, :h].reshape(n * kv, -1, size), keys, alpha=self.scale)
            score = score.softmax(-1) if self.dtype == torch.float32 else score.float().softmax(-1).to(self.dtype)
            out(x, torch.bmm(score, values).view(n, -1))
            gate, up = gate_up(self._norm(norm_out)).chunk(2, -1)
            down(x, F.silu(gate).mul_(up))
        return self.head(self._norm(self.norm))


def _joint(decoder: Decoder, joint: JoinedLinear) -> Apply:
    return _product(decoder.transposed(joint.weight), joint.bias) if joint.plain else joint


def _linear(decoder: Decoder, module: nn.Module) -> Apply:
    if type(module) is not nn.Linear:
        return module
    return _product(decoder.transposed(module.weight.data), module.bias)


def _product(weight: Tensor, bias: Tensor | None) -> Apply:
    return (lambda x: torch.mm(x, weight)) if bias is None else (lambda x: torch.addmm(bias, x, weight))


def _residual(decoder: Decoder, module: nn.Module) -> Callable[[Tensor, Tensor], Tensor]:
    """x += linear(y)."""
    if type(module) is not nn.Linear or module.bias is not None:
        return lambda x, y: x.add_(module(y))
    return _added(decoder.transposed(module.weight.data), None)


def _added(weight: Tensor, bias: Tensor | None) -> Callable[[Tensor, Tensor], Tensor]:
    if bias is None:
        return lambda x, y: x.addmm_(y, weight)
    return lambda x, y: x.add_(torch.addmm(bias, y, weight))
