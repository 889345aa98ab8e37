"""The step of one token of every row through the kernels: matrix products by torch, all between them in one pass each.

A prompt's keys and values are stored once, in a slot, for all rows that continue it; a row holds what it wrote itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import byref
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from podium.policy.native import LANES, LARGEST, Attend, Gate, Norm, library, place

if TYPE_CHECKING:
    from podium.policy.decoder import Decoder

__all__ = ["NativeCache", "NativeStep", "fits", "usable"]


def fits(decoder: Decoder) -> bool:
    """Whether the kernels know this kind of model: float32 on a CPU, heads of a size that they have room for."""
    here = decoder.device.type == "cpu" and decoder.dtype == torch.float32
    return here and decoder.head_size % LANES == 0 and decoder.head_size <= LARGEST and library() is not None


def usable(decoder: Decoder) -> bool:
    """Whether the kernels can do this model's step: its linear layers must be plain ones."""
    plain = all(
        x.qkv.plain
        and x.gate_up.plain
        and x.q_norm is None
        and all(type(m) is nn.Linear and m.bias is None for m in (x.out, x.down))
        for x in decoder.layers
    )
    return plain and type(decoder.head) is nn.Linear and fits(decoder)


def _room(length: int) -> int:
    return max(-(-length // LANES), 1) * LANES


class NativeCache:
    """Keys and values: of prompts in slots, and of what the rows wrote."""

    def __init__(self, decoder: Decoder, rows: int, prompt: int, written: int) -> None:
        self.decoder, self.rows, self.prompt, self.written = decoder, rows, _room(prompt), _room(written)
        layers, kv, size = len(decoder.layers), decoder.kv_heads, decoder.head_size

        def new(room: int) -> tuple[Tensor, Tensor]:
            # Keys [layers, rows, kv, lots, size, LANES], so that a vector holds one coordinate of many keys.
            shape = (layers, rows, kv, room // LANES, size, LANES), (layers, rows, kv, room, size)
            return torch.zeros(shape[0]), torch.zeros(shape[1])

        self.keys, self.values = new(self.written)
        self.shared_keys, self.shared_values = new(self.prompt)
        self.slot = torch.zeros(rows, dtype=torch.long)  # of each row
        self.shared = torch.zeros(rows, dtype=torch.long)  # how many of its tokens are there

    def fits(self, rows: int, prompt: int, written: int) -> bool:
        return rows <= self.rows and prompt <= self.prompt and written <= self.written

    def larger(self, rows: int, prompt: int, written: int) -> NativeCache:
        """A cache at least as large in every respect that holds the same."""
        new = NativeCache(self.decoder, max(rows, self.rows), max(prompt, self.prompt), max(written, self.written))
        for name in ("keys", "values", "shared_keys", "shared_values", "slot", "shared"):
            old = getattr(self, name)
            getattr(new, name)[tuple(slice(n) for n in old.shape)] = old
        return new

    def vacate(self, rows: Sequence[int]) -> None:
        """Let rows begin with nothing."""
        self.shared[list(rows)] = 0

    def admit(
        self,
        rows: Sequence[int],
        keys: Tensor,
        values: Tensor,
        nodes: Sequence[NDArray[np.int64]],
        texts: Sequence[tuple[int, ...]],
    ) -> None:
        """Let rows begin with texts, whose tokens are `nodes` of keys and values [layers, nodes, kv, size]."""
        free = set(range(self.rows)) - set(np.delete(self.slot.numpy(), list(rows)).tolist())
        slots: dict[tuple[int, ...], int] = {}
        paths: list[NDArray[np.int64]] = []
        for row, text, path in zip(rows, texts, nodes, strict=True):
            if text not in slots:
                slots[text] = free.pop()
                paths.append(path)
            self.slot[row], self.shared[row] = slots[text], len(path)
        length = _room(max(len(p) for p in paths))
        index = np.zeros((len(paths), length), dtype=np.int64)
        for number, path in enumerate(paths):
            index[number, : len(path)] = path
        chosen = torch.tensor(list(slots.values()))
        layers, _, kv, size = keys.shape
        taken = [x.index_select(1, torch.from_numpy(index.reshape(-1))) for x in (keys, values)]
        lots = taken[0].view(layers, len(paths), -1, LANES, kv, size).permute(0, 1, 4, 2, 5, 3)
        self.shared_keys[:, chosen, :, : length // LANES] = lots
        self.shared_values[:, chosen, :, :length] = taken[1].view(layers, len(paths), length, kv, size).transpose(2, 3)

    def read(self, row: int, length: int) -> tuple[Tensor, Tensor]:
        """Keys and values [layers, length, kv, size] of the first tokens of a row."""
        slot, shared = int(self.slot[row]), int(self.shared[row])
        both = []
        counts = min(shared, length), max(length - shared, 0)
        for prompt, own in ((self.shared_keys, self.keys), (self.shared_values, self.values)):
            layers, _, kv, *_, size = self.shared_values.shape
            found = torch.empty(layers, length, kv, size)
            for x, n, start in ((prompt[:, slot], counts[0], 0), (own[:, row], counts[1], counts[0])):
                if x.dim() == 5:  # keys, of which whole lots are read
                    x = x[:, :, : _room(n) // LANES].transpose(-1, -2).flatten(2, 3)
                found[:, start : start + n] = x[:, :, :n].transpose(1, 2)
            both.append(found)
        return both[0], both[1]

    def move(self, source: Sequence[int], target: Sequence[int]) -> None:
        """Put rows in the places of others."""
        a, b = torch.tensor(source), torch.tensor(target)
        for x in (self.keys, self.values):
            x.index_copy_(1, b, x.index_select(1, a))
        for y in (self.slot, self.shared):
            y[b] = y[a]

    @staticmethod
    def step_length(length: int) -> int:
        """For how many tokens a step is laid out: it does not matter here."""
        return 0


class NativeStep:
    """The step of the first `rows` rows of a cache."""

    def __init__(self, decoder: Decoder, cache: NativeCache, rows: int) -> None:
        d, found = decoder, library()
        assert found is not None
        width, inner = d.width, d.layers[0].gate_up.weight.shape[0] // 2
        heads, kv, size = d.heads, d.kv_heads, d.head_size
        self.x, self.normed = torch.zeros(rows, width), torch.zeros(rows, width)
        self.qkv, self.attended = torch.zeros(rows, (heads + 2 * kv) * size), torch.zeros(rows, heads * size)
        self.both, self.inside = torch.zeros(rows, 2 * inner), torch.zeros(rows, inner)
        self.position = torch.zeros(rows, dtype=torch.long)
        self.rope = torch.stack(d.rope(cache.prompt + cache.written), 1)
        self.score = torch.zeros(cache.prompt + cache.written + 2 * LANES)
        self.cache, self.embedding = cache, d.embedding
        self.norm_, self.gate_, self.attend_ = found.podium_norm, found.podium_gate, found.podium_attend
        self.gate = byref(Gate(place(self.both), place(self.inside), rows, inner, 1))
        self.weights: list[Tensor] = []

        def norm(module: Any) -> Any:
            self.weights.append(module.norm.weight.data)
            return byref(Norm(*map(place, (self.x, self.weights[-1], self.normed)), None, rows, width, 1, d.eps))

        self.layers = []
        for number, layer in enumerate(d.layers):
            attend = Attend(
                *(place(self.qkv), place(cache.keys[number]), place(cache.values[number])),
                *(place(cache.shared_keys[number]), place(cache.shared_values[number]), place(self.rope)),
                *(place(self.position), place(cache.slot), place(cache.shared)),
                *(place(self.attended), place(self.score)),
                *(rows, heads, kv, size, cache.written, cache.prompt, d.scale),
            )
            plain: list[Any] = [layer.out, layer.down]
            out, down = (module.weight.data for module in plain)
            weights = [d.transposed(w) for w in (layer.qkv.weight, out, layer.gate_up.weight, down)]
            norms = norm(layer.norm_in), norm(layer.norm_out)
            self.layers.append((norms[0], byref(attend), norms[1], layer.qkv.bias, *weights))
        self.last, self.head, self.head_bias = norm(d.norm_both), d.transposed(d.head.weight.data), d.head.bias

    def __call__(self, ids: Tensor, position: Tensor) -> Tensor:
        """Logits [rows, vocabulary] after token ids[i] at position[i] of row i; its keys and values are written."""
        x, normed, qkv, both = self.x, self.normed, self.qkv, self.both
        self.position.copy_(position)
        x.copy_(self.embedding(ids))
        for norm_in, attend, norm_out, bias, w_qkv, w_out, w_both, w_down in self.layers:
            self.norm_(norm_in)
            torch.mm(normed, w_qkv, out=qkv)
            if bias is not None:
                qkv += bias
            self.attend_(attend)
            x.addmm_(self.attended, w_out)
            self.norm_(norm_out)
            torch.mm(normed, w_both, out=both)
            self.gate_(self.gate)
            x.addmm_(self.inside, w_down)
        self.norm_(self.last)
        return torch.mm(normed, self.head) if self.head_bias is None else torch.addmm(self.head_bias, normed, self.head)
