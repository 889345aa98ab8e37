"""The decode step by native kernels: matrix products by torch, and a kernel for each operation between them.

A prompt's keys and values are stored once, in a slot, for all rows that continue it; what follows it is stored in
lines. A running row has a line, and a line without a row keeps its text for a row that continues it.
"""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import byref
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from podium.policy.forward.pack import LEAST
from podium.policy.native import LANES, LARGEST, Attend, Gate, Norm, library, place

if TYPE_CHECKING:
    from podium.policy.forward.decoder import Decoder

__all__ = ["NativeCache", "NativeRead", "NativeStep", "fits", "usable"]

READ = 256  # tokens that are read in one step


def fits(decoder: Decoder) -> bool:
    """Whether the kernels support this kind of model: float32 on a CPU, and heads of a supported size."""
    supported = decoder.device.type == "cpu" and decoder.dtype == torch.float32
    return supported and decoder.head_size % LANES == 0 and decoder.head_size <= LARGEST and library() is not None


def usable(decoder: Decoder) -> bool:
    """Whether the kernels can run this model's decode step: its linear layers must be plain ones."""
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
    """A KV cache with the keys and values of prompts in slots, and of what follows them in lines.

    Line 0 is not used by any row: rows without a completion write there.
    """

    def __init__(self, decoder: Decoder, rows: int, prompt: int, written: int) -> None:
        self.decoder, self.rows, self.prompt, self.written = decoder, rows, _room(prompt), _room(written)
        layers, kv, size = len(decoder.layers), decoder.kv_heads, decoder.head_size

        def new(room: int) -> tuple[Tensor, Tensor]:
            # Keys [layers, lines, kv, groups, size, LANES], so that a vector holds one coordinate of many keys.
            shape = (layers, rows + 1, kv, room // LANES, size, LANES), (layers, rows + 1, kv, room, size)
            return torch.zeros(shape[0]), torch.zeros(shape[1])

        self.keys, self.values = new(self.written)
        self.shared_keys, self.shared_values = new(self.prompt)
        self.line = torch.zeros(rows, dtype=torch.long)  # the line of each row
        self.line_of = self.line.numpy()  # the same memory: single numbers are read and written faster
        self.slot = torch.zeros(rows + 1, dtype=torch.long)  # the slot of each line
        self.shared = torch.zeros(rows + 1, dtype=torch.long)  # how many tokens of each line lie in its slot
        self.free = list(range(rows, 0, -1))  # lines that hold nothing
        self.rope = torch.stack(decoder.rope(self.prompt + self.written), 1)

    def fits(self, rows: int, prompt: int, written: int) -> bool:
        return rows <= self.rows and prompt <= self.prompt and written <= self.written

    def larger(self, rows: int, prompt: int, written: int) -> NativeCache:
        """A cache at least as large in every respect with the same content."""
        new = NativeCache(self.decoder, max(rows, self.rows), max(prompt, self.prompt), max(written, self.written))
        for name in ("keys", "values", "shared_keys", "shared_values", "line", "slot", "shared"):
            old = getattr(self, name)
            getattr(new, name)[tuple(slice(n) for n in old.shape)] = old
        new.free = [*range(new.rows, self.rows, -1), *self.free]
        return new

    def vacate(self, rows: Sequence[int]) -> None:
        """Give rows empty lines."""
        lines = [self.free.pop() for _ in rows]
        self.line_of[list(rows)] = lines
        self.shared[lines] = 0

    def leave(self, rows: Sequence[int]) -> None:
        """Free the lines of rows."""
        self.free += [line for line in self.line_of[list(rows)].tolist() if line]
        self.line_of[list(rows)] = 0

    def keep(self, row: int) -> int:
        """Detach the line of a finished row, with its content, and return it."""
        line = int(self.line_of[row])
        self.line_of[row] = 0
        return line

    def copy(self, pairs: Sequence[tuple[int, int]], length: int) -> None:
        """Copy the first line of each pair to the second, up to so many tokens."""
        if not pairs:
            return
        a, b = torch.tensor(pairs).t()
        room = _room(length - int(self.shared[a].min()))
        self.keys[:, b, :, : room // LANES] = self.keys[:, a, :, : room // LANES]
        self.values[:, b, :, :room] = self.values[:, a, :, :room]
        for x in (self.slot, self.shared):
            x[b] = x[a]

    def admit(
        self,
        rows: Sequence[int],
        keys: Tensor,
        values: Tensor,
        nodes: Sequence[NDArray[np.int64]],
        texts: Sequence[tuple[int, ...]],
    ) -> None:
        """Start rows with texts, whose tokens are `nodes` of keys and values [layers, nodes, kv, size]."""
        lines = self.line_of[list(rows)].tolist()
        free = set(range(self.rows + 1)) - set(np.delete(self.slot.numpy(), lines).tolist())
        slots: dict[tuple[int, ...], int] = {}
        paths: list[NDArray[np.int64]] = []
        for text, path in zip(texts, nodes, strict=True):
            if text not in slots:
                slots[text] = free.pop()
                paths.append(path)
        self.slot[lines] = torch.tensor([slots[text] for text in texts])
        self.shared[lines] = torch.tensor([len(path) for path in nodes])
        length = _room(max(len(p) for p in paths))
        index = np.zeros((len(paths), length), dtype=np.int64)
        for number, path in enumerate(paths):
            index[number, : len(path)] = path
        chosen = torch.tensor(list(slots.values()))
        layers, _, kv, size = keys.shape
        taken = [x.index_select(1, torch.from_numpy(index.reshape(-1))) for x in (keys, values)]
        groups = taken[0].view(layers, len(paths), -1, LANES, kv, size).permute(0, 1, 4, 2, 5, 3)
        self.shared_keys[:, chosen, :, : length // LANES] = groups
        self.shared_values[:, chosen, :, :length] = taken[1].view(layers, len(paths), length, kv, size).transpose(2, 3)

    def read(self, line: int, length: int) -> tuple[Tensor, Tensor]:
        """Keys and values [layers, length, kv, size] of the first tokens of a line."""
        slot, shared = int(self.slot[line]), int(self.shared[line])
        both = []
        counts = min(shared, length), max(length - shared, 0)
        for prompts, lines in ((self.shared_keys, self.keys), (self.shared_values, self.values)):
            layers, _, kv, *_, size = self.shared_values.shape
            joined = torch.empty(layers, length, kv, size)
            for x, n, start in ((prompts[:, slot], counts[0], 0), (lines[:, line], counts[1], counts[0])):
                if x.dim() == 5:  # keys, of which whole groups of LANES are read
                    x = x[:, :, : _room(n) // LANES].transpose(-1, -2).flatten(2, 3)
                joined[:, start : start + n] = x[:, :, :n].transpose(1, 2)
            both.append(joined)
        return both[0], both[1]

    def move(self, source: Sequence[int], target: Sequence[int]) -> None:
        """Move rows from `source` to `target`."""
        self.line_of[list(target)] = self.line_of[list(source)]
        self.line_of[list(source)] = 0

    @staticmethod
    def step_length(length: int) -> int:
        """For how many tokens a step is prepared: these kernels take any number."""
        return 0


class NativeStep:
    """The decode step of the first `rows` rows of a cache."""

    def __init__(self, decoder: Decoder, cache: NativeCache, rows: int, line: Tensor | None = None) -> None:
        d, kernels = decoder, library()
        assert kernels is not None
        width, inner = d.width, d.layers[0].gate_up.weight.shape[0] // 2
        heads, kv, size = d.heads, d.kv_heads, d.head_size
        self.x, self.normed = torch.zeros(rows, width), torch.zeros(rows, width)
        self.qkv, self.attended = torch.zeros(rows, (heads + 2 * kv) * size), torch.zeros(rows, heads * size)
        self.both, self.inside = torch.zeros(rows, 2 * inner), torch.zeros(rows, inner)
        self.position = torch.zeros(rows, dtype=torch.long)
        self.line = cache.line if line is None else line  # [rows]
        self.score = torch.zeros(cache.prompt + cache.written + 2 * LANES)
        self.cache, self.embedding = cache, d.embedding
        self.norm_, self.gate_, self.attend_ = kernels.podium_norm, kernels.podium_gate, kernels.podium_attend
        self.gate = byref(Gate(place(self.both), place(self.inside), rows, inner, 1))
        self.weights: list[Tensor] = []

        def norm(module: Any) -> Any:
            self.weights.append(module.norm.weight.data)
            return byref(Norm(*map(place, (self.x, self.weights[-1], self.normed)), None, rows, width, 1, d.eps))

        self.layers = []
        for number, layer in enumerate(d.layers):
            attend = Attend(
                *(place(self.qkv), place(cache.keys[number]), place(cache.values[number])),
                *(place(cache.shared_keys[number]), place(cache.shared_values[number]), place(cache.rope)),
                *(place(self.position), place(self.line), place(cache.slot), place(cache.shared)),
                *(place(self.attended), place(self.score)),
                *(rows, heads, kv, size, cache.written, cache.prompt, d.scale),
            )
            plain: list[Any] = [layer.out, layer.down]
            out, down = (module.weight.data for module in plain)
            weights = [d.transposed(w) for w in (layer.qkv.weight, out, layer.gate_up.weight, down)]
            norms = norm(layer.norm_in), norm(layer.norm_out)
            self.layers.append((norms[0], byref(attend), norms[1], layer.qkv.bias, *weights))
        self.last, self.head, self.head_bias = norm(d.padded_norm), d.transposed(d.head.weight.data), d.head.bias

    def __call__(self, ids: Tensor, position: Tensor) -> Tensor:
        """Logits [rows, vocabulary] after token ids[i] at position[i] of row i; its keys and values are written."""
        self.read(ids, position)
        self._feed(self.layers[-1])
        self.norm_(self.last)
        head, bias = self.head, self.head_bias
        return torch.mm(self.normed, head) if bias is None else torch.addmm(bias, self.normed, head)

    def read(self, ids: Tensor, position: Tensor) -> None:
        """Write the keys and values of token ids[i] at position[i] of row i; stops after the last attention."""
        self.position.copy_(position)
        self.x.copy_(self.embedding(ids))
        for layer in self.layers[:-1]:
            self._attend(layer)
            self._feed(layer)
        self._attend(self.layers[-1])

    def _attend(self, layer: Any) -> None:
        norm_in, attend, _, bias, w_qkv, _, _, _ = layer
        self.norm_(norm_in)
        torch.mm(self.normed, w_qkv, out=self.qkv)
        if bias is not None:
            self.qkv += bias
        self.attend_(attend)

    def _feed(self, layer: Any) -> None:
        """The output projection of a layer's attention, and its feed-forward part."""
        _, _, norm_out, _, _, w_out, w_both, w_down = layer
        self.x.addmm_(self.attended, w_out)
        self.norm_(norm_out)
        torch.mm(self.normed, w_both, out=self.both)
        self.gate_(self.gate)
        self.x.addmm_(self.inside, w_down)


class NativeRead:
    """Prefill in lines of a cache: keys and values are written, and no logits are computed."""

    def __init__(self, decoder: Decoder, cache: NativeCache) -> None:
        self.decoder, self.cache = decoder, cache
        self.steps: dict[int, NativeStep] = {}  # by their number of tokens

    def __call__(self, unread: Sequence[tuple[int, int, tuple[int, ...]]]) -> None:
        """`unread` holds for each text its line, the position of its first unread token, and the unread tokens."""
        count = sum(len(ids) for _, _, ids in unread)
        # Tokens, their positions and lines; the padding goes to line 0.
        numbers = np.zeros((3, -(-count // READ) * READ), dtype=np.int64)
        end = 0
        for line, position, ids in unread:
            begin, end = end, end + len(ids)
            numbers[:, begin:end] = ids, range(position, position + len(ids)), [line] * len(ids)
        for first in range(0, count, READ):  # the tokens of a text are in order, in one step or in several
            width = min(-(-(count - first) // LEAST) * LEAST, READ)
            if width not in self.steps:
                lines = torch.zeros(width, dtype=torch.long)
                self.steps[width] = NativeStep(self.decoder, self.cache, width, lines)
            step, (token, place, line_of) = self.steps[width], torch.from_numpy(numbers[:, first : first + width])
            step.line.copy_(line_of)
            step.read(token, place)
