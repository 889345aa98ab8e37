"""The state of the rows of a running batch, and what their completions have written, on the policy's device."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from podium.core import streams
from podium.policy.policy import Policy
from podium.protocols.sampling import ALLOWED, Sampling
from podium.sampler.capture import Capture, capture
from podium.sampler.draw import Drawn, Filters, KeptTokens, draw
from podium.sampler.grammars import Grammars
from podium.sampler.row_engine import RowEngine, SteppedEngine
from podium.sampler.stops import Stops

if TYPE_CHECKING:
    from podium.sampler.rows import Rows

__all__ = ["RowState", "RowReport", "RowStart", "SteppedRowState"]

# Indices of a row's integers. FLAT and LAST: where in the flat buffers its next and its last token go.
TOKEN, POSITION, FLAT, LAST, ALIVE, STOPS, TOP_K = range(7)
TEMPERATURE, TOP_P, MIN_P, WARMTH = range(4)  # indices of its floats; those from WARMTH on are the fields of `Warmth`
STEADY = (0.0, 0.0, 0.0, 0.0)  # a temperature that does not follow the entropy
NUMBERS = WARMTH + len(STEADY)
WAITS = 2  # ALIVE of a row that has not begun
# Rows whose completions may have ended, and how many tokens they may still write. Blocks until the device is done.
RowReport = Callable[[], dict[int, int]]


@dataclass(frozen=True)
class RowStart:
    """The initial state of the row that a completion takes."""

    row: int
    slot: int  # where its tokens are written
    token: int  # the last of its context
    position: int  # of that token
    limit: int  # tokens it may have
    sampling: Sampling
    key: int  # of its random stream
    prefix: tuple[int, ...]  # the tokens of its turn that exist already: as many numbers of its stream are used up


class RowState(ABC):
    """Integers and floats [quantity, row] of rows, and what completions write [slot, token].

    Rows without a completion write to slot 0.
    """

    burst = 1  # tokens drawn in each row before the host looks at them
    max_burst = 1  # the same, while no row is about to end
    host_uniforms: float = math.inf  # up to this many random numbers of joining rows are made on the host
    initial_status = 1  # ALIVE of a row that has just been taken

    def __init__(self, policy: Policy, engine: RowEngine, stops: Stops, slots: int) -> None:
        self.policy, self.device, self.engine, self.stops = policy, policy.device, engine, stops
        self.slots = slots  # rows that may advance at once
        self.max_rows = slots  # rows that may be taken, with those that wait
        new = partial(torch.zeros, device=self.device)
        self.ints, self.numbers = new((7, 0), dtype=torch.long), new((NUMBERS, 0))
        self.uniform = new((1, 0), dtype=torch.float64)
        self.kept: dict[str, Tensor] = {"ids": new((1, 0), dtype=torch.long), "logp": new((1, 0))}
        self.free: list[int] = []  # slots
        self.grammars = Grammars(policy, stops)
        self.states = new(1, dtype=torch.long)  # [row] of its grammar; the last one is nobody's
        # By slot and place, the set that a token was drawn from.
        self.drawn_from: defaultdict[int, dict[int, str]] = defaultdict(dict)

    def reserve(self, rows: int, tokens: int) -> None:
        """Allocate the state of this many rows and slots, for completions of this many tokens."""
        slots, width = self.kept["ids"].shape
        if rows + 1 <= slots and tokens <= width:
            return
        shape = (max(rows + 1, slots), max(tokens, width))
        self.free.extend(range(max(slots, 1), shape[0]))
        # A slot's place in the flat buffers is slot · width.
        for place in (FLAT, LAST):
            self.ints[place] += self.ints[place] // max(width, 1) * (shape[1] - width)

        def grown(x: Tensor, *size: int) -> Tensor:
            larger = x.new_zeros(size)
            larger[tuple(slice(0, n) for n in x.shape)] = x
            return larger

        self.uniform = grown(self.uniform, *shape)
        self.kept = {name: grown(x, *shape, *x.shape[2:]) for name, x in self.kept.items()}
        before = self.ints.shape[1]
        self.ints, self.numbers = grown(self.ints, 7, shape[0] - 1), grown(self.numbers, NUMBERS, shape[0] - 1)
        self.states = grown(self.states[:-1], shape[0])
        self.numbers[:WARMTH, before:] = 1.0  # unused rows are drawn too: without filters, at a steady temperature

    def start(self, row_starts: Sequence[RowStart]) -> Tensor:
        """Write the initial state of rows; returns their numbers."""
        width = self.kept["ids"].shape[1]
        ints, numbers = [], []
        for row_start in row_starts:
            s, first = row_start.sampling, row_start.slot * width
            greedy = s.temperature == 0.0  # the same as keeping the most likely token alone
            stops, top_k = self.stops.row(s.stop), 1 if greedy else s.top_k
            last, status = first + row_start.limit - 1, self.initial_status
            ints.append((row_start.token, row_start.position, first, last, status, stops, top_k))
            warmth = s.warmth.numbers() if s.warmth is not None else STEADY
            numbers.append((1.0 if greedy else s.temperature, s.top_p, s.min_p, *warmth))
        count = max(row_start.limit for row_start in row_starts)
        keys = np.array([row_start.key for row_start in row_starts], dtype=np.uint64)
        starts = np.array([len(row_start.prefix) for row_start in row_starts])
        on_host = len(row_starts) * count <= self.host_uniforms
        states = [self.grammars.start(row_start.sampling.grammar, row_start.prefix) for row_start in row_starts]
        rows, slots, whole, real, begin, random = self._send(
            np.array([row_start.row for row_start in row_starts]),
            np.array([row_start.slot for row_start in row_starts]),
            np.array(ints).T,
            np.array(numbers, dtype=np.float32).T,
            np.array(states),
            streams.uniforms(keys, starts, count) if on_host else np.stack([keys.view(np.int64), starts]),
        )
        self.ints.index_copy_(1, rows, whole)
        self.numbers.index_copy_(1, rows, real)
        self.states.index_copy_(0, rows, begin)
        uniform = random if on_host else streams.uniforms_on(random[0], random[1], count)
        self.uniform[:, :count].index_copy_(0, slots, uniform)
        return rows

    def clear(self, rows: Sequence[int]) -> None:
        (gone,) = self._send(np.array(rows))
        self.ints.index_fill_(1, gone, 0)
        self.states.index_fill_(0, gone, 0)

    @abstractmethod
    def advance(self, n: int, length: int, marks: Mapping[str, int], count: int = 1) -> RowReport:
        """Draw `count` tokens in each of the first n rows; no row is then longer than `length`."""

    @abstractmethod
    def width(self, rows: Rows) -> int:
        """How many rows the next step has."""

    @abstractmethod
    def close_up(self, rows: Rows) -> None:
        """Move the last rows into the places of those that have ended, if that makes a step smaller."""

    def _keep(self, name: str, drawn: Drawn, flat: Tensor) -> None:
        """Record a captured signal of the tokens just drawn."""
        wanted: Capture = capture(name)
        value = wanted(drawn, self._embeddings())
        value = value.float() if value.dtype == torch.bfloat16 else value  # NumPy has no bfloat16
        if name not in self.kept:
            self.kept[name] = value.new_zeros((*self.kept["ids"].shape, *value.shape[1:]))
        self.kept[name].flatten(0, 1).index_copy_(0, flat, value)

    def _record_sets(self, flat: Tensor, states: Tensor, kept: KeptTokens | None) -> None:
        """Record the sets that tokens at these places were drawn from: those that filters have left, or else those
        that the states of grammars allow."""
        width, places = self.kept["ids"].shape[1], flat.tolist()
        left = [""] * len(places) if kept is None else kept.sets(self.policy.vocabulary)
        for at, state, text in zip(places, states.tolist(), left, strict=True):
            if one := text or self.grammars.allowed(state):
                self.drawn_from[at // width][at % width] = one

    def sets(self, slot: int, count: int) -> tuple[str | None, ...]:
        """The sets that the `count` tokens of a completion were drawn from; None: the whole vocabulary."""
        return tuple(map(self.drawn_from.pop(slot, {}).get, range(count)))

    def _embeddings(self) -> Tensor:
        """[V, D] the input embeddings."""
        weight: Tensor = self.policy.model.get_input_embeddings().weight  # type: ignore[operator]
        return weight

    def written(
        self, names: Iterable[str], slots: Sequence[int], counts: Sequence[int]
    ) -> dict[str, list[NDArray[Any]]]:
        """By name, the first `counts` values that completions have written into their slots."""
        if self.device.type == "cpu":
            whole, rows = {name: self.kept[name].numpy() for name in names}, slots
        else:
            whole, rows = self._read(names, slots, max(counts)), range(len(slots))
        return {name: [x[row, :count] for row, count in zip(rows, counts, strict=True)] for name, x in whole.items()}

    def _read(self, names: Iterable[str], slots: Sequence[int], count: int) -> dict[str, NDArray[Any]]:
        """The first `count` values of slots, copied from the device with a single synchronisation."""
        (index,) = self._send(np.array(slots))
        selected = {name: self.kept[name][:, :count].index_select(0, index) for name in names}
        host = {name: torch.empty(x.shape, dtype=x.dtype, pin_memory=True) for name, x in selected.items()}
        for name, x in selected.items():
            host[name].copy_(x, non_blocking=True)
        torch.cuda.current_stream(self.device).synchronize()
        return {name: x.numpy() for name, x in host.items()}

    def _send(self, *arrays: NDArray[Any]) -> list[Tensor]:
        return [torch.from_numpy(x).to(self.device) for x in arrays]


class SteppedRowState(RowState):
    """Draws one token of each row per step; the rows stay numbered without gaps."""

    engine: SteppedEngine

    def width(self, rows: Rows) -> int:
        return len(rows)

    def close_up(self, rows: Rows) -> None:
        left, total = rows.running, len(rows)
        if left == total or self.engine.bucket(left) == self.engine.bucket(total):
            return
        source, target = rows.close_up(left)
        self.engine.move(source, target, left)
        if source:
            a, b = self._send(np.array(source), np.array(target))
            self.ints[:, b] = self.ints[:, a]
            self.numbers[:, b] = self.numbers[:, a]
            self.states[b] = self.states[a]
        self.ints[:, left:total] = 0
        self.states[left:total] = 0

    def advance(self, n: int, length: int, marks: Mapping[str, int], count: int = 1) -> RowReport:
        ints, numbers = self.ints[:, :n], self.numbers[:, :n]
        token, position, flat, last, alive, stops, top_k = ints.unbind(0)
        logits = self.engine.step(token, position, length)
        uniform = self.uniform.view(-1).index_select(0, flat)
        temperature = numbers[TEMPERATURE] if marks["temperature"] else None
        filtered = marks["filter"] or marks["greedy"]
        filters = Filters(top_k, numbers[TOP_P], numbers[MIN_P]) if filtered else None
        warmth = numbers[WARMTH:] if marks["warmth"] else None
        states, recorded = self.states[:n], marks.get(f"capture {ALLOWED}", 0) > 0
        if marks["grammar"]:
            logits = self.grammars.exclude(logits, states)
        drawn = draw(logits, uniform, temperature, filters, warmth, recorded)
        if recorded and (filters is not None or marks["grammar"]):
            self._record_sets(flat, states, drawn.kept)
        if marks["grammar"]:
            self.states[:n] = self.grammars.after(states, drawn.token)
        self.kept["ids"].view(-1).index_copy_(0, flat, drawn.token)
        self.kept["logp"].view(-1).index_copy_(0, flat, drawn.logp)
        for mark, wanted in marks.items():
            if wanted and mark.startswith("capture ") and mark != f"capture {ALLOWED}":
                self._keep(mark.removeprefix("capture "), drawn, flat)
        token.copy_(drawn.token)
        ints[POSITION : FLAT + 1] += alive
        left = last - flat + 1
        ends = (self.stops.table[stops, drawn.token] > 0) | (left <= 0)

        def report() -> dict[int, int]:
            rows = ends.nonzero().view(-1)
            return dict(zip(rows.tolist(), left[rows].tolist(), strict=True))

        return report
