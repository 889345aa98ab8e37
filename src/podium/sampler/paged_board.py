"""What rows on a GPU are doing: several tokens of each drawn by captured graphs before the host looks at them.

A step has lanes, and each lane goes on with one row. Rows that are seated wait in a line; when a lane's row has ended,
the lane takes the next of the line at the next step, without the host. So lanes stay busy while the host is behind, and
a row stays where it is for as long as it lasts.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from podium.policy.cuda import decode_reference as plain
from podium.policy.cuda.decode import Captured, PagedStep
from podium.policy.cuda.draw_trial import draw_trial
from podium.policy.cuda.pages import sent
from podium.policy.policy import Policy
from podium.sampler.draw import Drawn
from podium.sampler.row_state import (
    ALIVE,
    FLAT,
    MIN_P,
    POSITION,
    TEMPERATURE,
    TOKEN,
    TOP_K,
    TOP_P,
    WAITS,
    WARMTH,
    Board,
    RowReport,
    Seat,
)
from podium.sampler.stops import Stops

if TYPE_CHECKING:
    from podium.sampler.paged import Paged
    from podium.sampler.rows import Rows

__all__ = ["PagedBoard"]

WRITTEN = "ids", "logp", "entropy"  # what the kernels keep of every token


class PagedBoard(Board):
    """Draws by kernels of the captured step; what else rows want to keep of a token is found after each step."""

    engine: Paged
    few = 1 << 15  # the host takes 150 us for them; to make them, some 20 launches, the GPU stands idle for 100 us
    ahead, far = 8, 32
    seated = WAITS

    def __init__(self, policy: Policy, engine: Paged, stops: Stops, slots: int) -> None:
        super().__init__(policy, engine, stops, slots)
        self.seats = engine.seats
        self.kept["entropy"] = torch.zeros((1, 0), device=self.device)
        whole = partial(torch.zeros, dtype=torch.long, device=self.device)
        self.seen = whole(0)  # [row] one more than it may still write, if the host must look
        self.lane = whole(0)  # [lane] its row; −1: none
        self.line = whole(1)  # rows that wait, the n-th at n modulo its length
        self.ends = whole(3)  # how many have left the line, have joined it, and will have left it after this step
        self.joined = 0
        # What a step is of: its lanes' numbers, and last their rows.
        self.here, self.here_numbers = whole((self.ints.shape[0] + 1, 0)), self.numbers.clone()
        self._lanes = 0  # of the last step
        self._left: set[int] = set()  # rows without a completion whose state has not been cleared
        self._graphs: dict[tuple[int, int, bool, bool], Captured] = {}
        self._cuts: tuple[Tensor, ...] | None = None  # how far down each lane goes
        self._warmed: tuple[Tensor, ...] | None = None  # temperatures that follow the entropy, statistics at them
        self._tried: bool | None = None  # whether truncated and warmed draws have kernels that work
        self._drawn_for: tuple[int, ...] = ()  # places of the tensors for which they were made
        self._side: Any = None  # a stream for reading
        if self.device.type == "cuda":
            self._side = torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]
        self._event: Any = None  # when what was last looked at had been written

    def _able(self) -> bool:
        """Whether the kernels of truncated and warmed draws work here: tried at the first such draw."""
        if self._tried is None:
            reason = draw_trial(self.engine.pages.kernels, self.policy.vocabulary, self.device)
            self._tried = reason is None
            if reason is not None:
                said = f"Draws with top_k, top_p, min_p or a warmth go through torch here, which is slower: {reason}."
                warnings.warn(said, stacklevel=2)
        return self._tried

    def reserve(self, rows: int, tokens: int) -> None:
        whole = self.engine.pages.kernels.ROWS
        super().reserve(-(-rows // whole) * whole, tokens)
        had, room = len(self.lane), self.ints.shape[1]
        if had == room:
            return
        self.seen = torch.cat([self.seen, self.seen.new_zeros(room - had)])
        self.lane = torch.cat([self.lane, self.lane.new_full((room - had,), -1)])
        waiting = torch.arange(max(0, self.joined - len(self.line)), self.joined, device=self.device)
        line = self.line.new_zeros(room)
        line[waiting % room] = self.line[waiting % len(self.line)]
        self.line = line
        self.here = self.here.new_zeros((len(self.here), room))
        self.here_numbers = torch.zeros_like(self.numbers)
        self.here_numbers[:WARMTH] = 1.0

    def width(self, rows: Rows) -> int:
        return min(rows.running, self.slots)

    def close_up(self, rows: Rows) -> None:
        """Rows stay where they are: lanes move in their place."""

    def seat(self, seats: Sequence[Seat]) -> Tensor:
        """They join the line."""
        self._left.difference_update(seat.row for seat in seats)
        rows = super().seat(seats)
        begin = self.joined % len(self.line)
        end = min(len(self.line), begin + len(seats))
        self.line[begin:end].copy_(rows[: end - begin])
        if end - begin < len(seats):
            self.line[: len(seats) - (end - begin)].copy_(rows[end - begin :])
        self.joined += len(seats)
        self.ends[1:2].fill_(self.joined)  # to assign a number would wait for the device
        return rows

    def clear(self, rows: Sequence[int]) -> None:
        """Before the next step; until then others may take them."""
        self._left.update(rows)

    def _narrow(self, lanes: int) -> None:
        """Let the first lanes go on with the rows that are going on."""
        going = (self.lane >= 0) & (self.ints[ALIVE][self.lane.clamp(min=0)] == 1)
        self.lane.copy_(self.lane[going.logical_not().sort(stable=True).indices])
        self.lane[lanes:].fill_(-1)
        # A step works on a few lanes more than it has: there is nobody.
        self.here[:, lanes:].zero_()
        self.engine.pages.front[lanes:].zero_()

    def advance(self, n: int, length: int, marks: Mapping[str, int], count: int = 1) -> RowReport:
        if self._left:
            super().clear(list(self._left))
            self._left.clear()
        if n < self._lanes:
            self._narrow(n)
        self._lanes = n
        written = (self.kept[name] for name in WRITTEN)
        state = (self.ints, self.numbers, self.here, self.lane, self.line)
        places = (self.engine.voided, *(x.data_ptr() for x in (*state, self.uniform, self.stops.table, *written)))
        if places != self._drawn_for:
            if self._side is not None:
                torch.cuda.synchronize(self.device)  # a graph must not go while it is being replayed
            self._graphs.clear()
            self._cuts = self._warmed = None
            self._drawn_for = places
        truncated, warmed = (marks.get(mark, 0) > 0 for mark in ("filter", "warmth"))
        step = self.engine.laid_out(n, length)
        able = not (truncated or warmed) or self._able()
        do, of = step.kernels if able else plain, step.work.statistics
        if truncated and self._cuts is None:
            self._cuts = do.cuts(*of[0].shape, self.device)
        if warmed and self._warmed is None:
            self._warmed = of[0].new_empty(len(of[0])), *map(torch.empty_like, of)
        cuts, heat = self._cuts if truncated else None, self._warmed if warmed else None
        key = n, self.engine.pages.step_length(length), truncated, warmed
        graph = self._graphs.setdefault(key, Captured(self.device, able))
        wanted = [mark.removeprefix("capture ") for mark, rows in marks.items() if rows and mark.startswith("capture ")]
        further = [name for name in wanted if name not in WRITTEN]
        for _ in range(count):
            graph(lambda: self._launch(step, do, cuts, heat))
            if further:
                at = self.here[FLAT, :n]  # lanes without a row write to slot 0
                drawn = self._drawn(step, at, cuts, heat)
                for name in further:
                    self._keep(name, drawn, at)
        return self._report()

    def _drawn(
        self, step: PagedStep, at: Tensor, cuts: tuple[Tensor, ...] | None, warmed: tuple[Tensor, ...] | None
    ) -> Drawn:
        """What a step has drawn and written at these places, and from which distribution."""
        n, (ids, logp, entropy) = step.rows, (self.kept[name].view(-1)[at] for name in WRITTEN)

        def distribution() -> Tensor:
            temperature = self.here_numbers[TEMPERATURE] if warmed is None else warmed[0]
            z = step.work.logits[:n] / temperature[:n, None]
            token = torch.arange(z.shape[1], device=z.device)
            left = (self.here[TOP_K, :n, None] != 1) | (token == ids[:, None])
            if cuts is not None:
                cut, edge = (x[:n, None] for x in cuts[:2])
                depth = z.amax(-1, keepdim=True) - z
                left &= (depth < cut) | ((depth == cut) & (token <= edge))
            return (z - z.gather(1, ids[:, None]) + logp[:, None]).masked_fill(~left, float("-inf"))

        return Drawn(ids, logp, distribution, entropy)

    def _launch(
        self, step: PagedStep, do: Any, cuts: tuple[Tensor, ...] | None, warmed: tuple[Tensor, ...] | None
    ) -> None:
        here, numbers, pages = self.here, self.here_numbers, self.engine.pages
        waiting = self.lane, self.line, self.ends
        step.kernels.assemble(
            step.rows, self.slots, waiting, (self.ints, self.numbers, pages.table), (here, numbers, pages.front)
        )
        temperature = numbers[TEMPERATURE]
        step.launch(here[TOKEN], here[POSITION], temperature)
        scores: tuple[Any, ...] = step.rows, step.work.logits, step.work.statistics, temperature
        if warmed is not None:
            heat, *of = warmed
            do.warm(*scores, numbers[WARMTH:], heat, tuple(of))
            scores = step.rows, step.work.logits, tuple(of), heat
        if cuts is not None:
            do.truncate(*scores, here[ALIVE], (here[TOP_K], numbers[TOP_P], numbers[MIN_P]), cuts)
        written = tuple(self.kept[name].view(-1) for name in WRITTEN)
        given = self.uniform.view(-1), here, self.stops.table, written
        do.choose(*scores, *given, self.ints, (self.lane, self.ends, self.seen), cuts)

    def _report(self) -> RowReport:
        """What the device says when it has come so far; the host may go on meanwhile."""

        def found(seen: NDArray[np.int64]) -> dict[int, int]:
            rows = np.flatnonzero(seen)
            return dict(zip(rows.tolist(), (seen[rows] - 1).tolist(), strict=True))

        if self._side is None:
            rows = found(self.seen.numpy())
            self.seen.zero_()
            return lambda: rows
        host = torch.empty(self.seen.shape, dtype=self.seen.dtype, pin_memory=True)
        host.copy_(self.seen, non_blocking=True)
        self.seen.zero_()
        event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        event.record()

        def wait() -> dict[int, int]:
            event.synchronize()
            self._event = event
            return found(host.numpy())

        return wait

    def _read(self, names: Iterable[str], slots: Sequence[int], count: int) -> dict[str, NDArray[Any]]:
        """Read beside the burst that is under way, which writes elsewhere."""
        if self._side is None or self._event is None:
            return super()._read(names, slots, count)
        with torch.cuda.stream(self._side):
            self._side.wait_event(self._event)
            return super()._read(names, slots, count)

    def sent(self, *arrays: NDArray[Any]) -> list[Tensor]:
        return sent(self.device, *arrays)
