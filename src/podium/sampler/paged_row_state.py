"""The state of rows on a GPU: CUDA graphs draw several tokens of each row before the host looks at them.

A step has lanes, and each lane advances one row. Rows that join wait in a queue on the device; when a lane's row has
ended, the lane takes the next row of the queue at the next step, without the host. So lanes stay busy while the host is
behind, and a row keeps its place from beginning to end.
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
from podium.policy.cuda.draw_check import check_draw_kernels
from podium.policy.cuda.pages import send_arrays
from podium.policy.head.functionals import EXCLUDED
from podium.policy.policy import Policy
from podium.protocols.sampling import ALLOWED
from podium.sampler.draw import Drawn, Filters, KeptTokens
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
    RowReport,
    RowStart,
    RowState,
)
from podium.sampler.stops import Stops

if TYPE_CHECKING:
    from podium.sampler.paged import PagedEngine
    from podium.sampler.rows import Rows

__all__ = ["PagedRowState"]

WRITTEN = "ids", "logp", "entropy"  # what the kernels record of every token


class PagedRowState(RowState):
    """Tokens are drawn by kernels inside the captured step; further captured signals are computed after each step."""

    engine: PagedEngine
    host_uniforms = 1 << 15  # the host takes 150 us for them; the GPU would need 20 launches and idle for 100 us
    burst, max_burst = 8, 32
    initial_status = WAITS

    def __init__(self, policy: Policy, engine: PagedEngine, stops: Stops, slots: int) -> None:
        super().__init__(policy, engine, stops, slots)
        self.max_rows = engine.max_rows
        self.kept["entropy"] = torch.zeros((1, 0), device=self.device)
        whole = partial(torch.zeros, dtype=torch.long, device=self.device)
        self.seen = whole(0)  # [row] 1 + how many tokens it may still write, if the host must look at it; else 0
        self.lane = whole(0)  # [lane] its row; −1: none
        self.line = whole(1)  # the queue: a ring buffer of rows, the n-th at n modulo its length
        self.ends = whole(3)  # how many have left the queue, have joined it, and will have left it after this step
        self.joined = 0
        # The state of the rows in each lane of a step, gathered; the last of the integers is the row.
        self.lane_ints, self.lane_numbers = whole((self.ints.shape[0] + 1, 0)), self.numbers.clone()
        self._lanes = 0  # of the last step
        self._lane_states = whole(0)  # [lane] the state of its grammar before the step
        self._left: set[int] = set()  # rows whose completions have ended but whose state has not been cleared
        self._graphs: dict[tuple[int, int, bool, bool, bool], Captured] = {}
        self._cuts: tuple[Tensor, ...] | None = None  # truncation thresholds of each lane
        self._warmed: tuple[Tensor, ...] | None = None  # temperatures adapted to the entropy, and statistics at them
        self._tried: bool | None = None  # whether the kernels of truncated and warmed draws work
        self._drawn_for: tuple[int, ...] = ()  # addresses of the tensors for which the graphs were captured
        self._side: Any = None  # a CUDA stream for copies to the host
        if self.device.type == "cuda":
            self._side = torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]
        self._event: Any = None  # after the burst that was last reported

    def _able(self) -> bool:
        """Whether the kernels of truncated and warmed draws work on this GPU: checked at the first such draw."""
        if self._tried is None:
            reason = check_draw_kernels(self.engine.pages.kernels, self.policy.vocabulary, self.device)
            self._tried = reason is None
            if reason is not None:
                message = (
                    f"Draws with top_k, top_p, min_p or a warmth go through torch here, which is slower: {reason}."
                )
                warnings.warn(message, stacklevel=2)
        return self._tried

    def reserve(self, rows: int, tokens: int) -> None:
        whole = self.engine.pages.kernels.ROWS
        super().reserve(-(-rows // whole) * whole, tokens)
        before, room = len(self.lane), self.ints.shape[1]
        if before == room:
            return
        self.seen = torch.cat([self.seen, self.seen.new_zeros(room - before)])
        self.lane = torch.cat([self.lane, self.lane.new_full((room - before,), -1)])
        waiting = torch.arange(max(0, self.joined - len(self.line)), self.joined, device=self.device)
        line = self.line.new_zeros(room)
        line[waiting % room] = self.line[waiting % len(self.line)]
        self.line = line
        self.lane_ints = self.lane_ints.new_zeros((len(self.lane_ints), room))
        self._lane_states = self.lane.new_zeros(room)
        self.lane_numbers = torch.zeros_like(self.numbers)
        self.lane_numbers[:WARMTH] = 1.0

    def width(self, rows: Rows) -> int:
        return min(rows.running, self.slots)

    def close_up(self, rows: Rows) -> None:
        """Nothing to do: rows keep their places, and `_narrow` compacts the lanes."""

    def start(self, row_starts: Sequence[RowStart]) -> Tensor:
        """Rows join the queue of those that wait for a lane."""
        self._left.difference_update(row_start.row for row_start in row_starts)
        rows = super().start(row_starts)
        begin = self.joined % len(self.line)
        end = min(len(self.line), begin + len(row_starts))
        self.line[begin:end].copy_(rows[: end - begin])
        if end - begin < len(row_starts):
            self.line[: len(row_starts) - (end - begin)].copy_(rows[end - begin :])
        self.joined += len(row_starts)
        self.ends[1:2].fill_(self.joined)  # plain assignment of a number would synchronise with the device
        return rows

    def clear(self, rows: Sequence[int]) -> None:
        """Mark rows to be cleared before the next step, unless they are taken again until then."""
        self._left.update(rows)

    def _narrow(self, lanes: int) -> None:
        """Move the running rows into the first lanes."""
        running = (self.lane >= 0) & (self.ints[ALIVE][self.lane.clamp(min=0)] == 1)
        self.lane.copy_(self.lane[running.logical_not().sort(stable=True).indices])
        self.lane[lanes:].fill_(-1)
        # A step works on a few lanes beyond those it has: they stay empty.
        self.lane_ints[:, lanes:].zero_()
        self.engine.pages.front[lanes:].zero_()

    def advance(self, n: int, length: int, marks: Mapping[str, int], count: int = 1) -> RowReport:
        if self._left:
            super().clear(list(self._left))
            self._left.clear()
        if n < self._lanes:
            self._narrow(n)
        self._lanes = n
        written = (self.kept[name] for name in WRITTEN)
        state = (self.ints, self.numbers, self.lane_ints, self.lane, self.line, self.states, self.grammars.table)
        places = (self.engine.voided, *(x.data_ptr() for x in (*state, self.uniform, self.stops.table, *written)))
        if places != self._drawn_for:
            if self._side is not None:
                torch.cuda.synchronize(self.device)  # a graph must not be freed while it is being replayed
            self._graphs.clear()
            self._cuts = self._warmed = None
            self._drawn_for = places
        truncated, warmed, ruled = (marks.get(mark, 0) > 0 for mark in ("filter", "warmth", "grammar"))
        step = self.engine.prepared_step(n, length)
        able = not (truncated or warmed) or self._able()
        do, of = step.kernels if able else plain, step.work.statistics
        if truncated and self._cuts is None:
            self._cuts = do.cuts(*of[0].shape, self.device)
        if warmed and self._warmed is None:
            self._warmed = of[0].new_empty(len(of[0])), *map(torch.empty_like, of)
        cuts, heat = self._cuts if truncated else None, self._warmed if warmed else None
        key = n, self.engine.pages.step_length(length), truncated, warmed, ruled
        graph = self._graphs.setdefault(key, Captured(self.device, able))
        wanted = [mark.removeprefix("capture ") for mark, rows in marks.items() if rows and mark.startswith("capture ")]
        further = [name for name in wanted if name not in (*WRITTEN, ALLOWED)]
        recorded = ALLOWED in wanted and (truncated or ruled or marks["greedy"] > 0)
        for _ in range(count):
            graph(lambda: self._launch(step, do, cuts, heat, ruled))
            at = self.lane_ints[FLAT, :n]  # lanes without a row write to slot 0
            if recorded:
                self._record_lanes(step, at, cuts, heat)
            if further:
                drawn = self._drawn(step, at, cuts, heat)
                for name in further:
                    self._keep(name, drawn, at)
        return self._report()

    def _drawn(
        self, step: PagedStep, at: Tensor, cuts: tuple[Tensor, ...] | None, warmed: tuple[Tensor, ...] | None
    ) -> Drawn:
        """What a step has drawn and recorded at these places, and from which distribution."""
        n, (ids, logp, entropy) = step.rows, (self.kept[name].view(-1)[at] for name in WRITTEN)

        def distribution() -> Tensor:
            temperature = self.lane_numbers[TEMPERATURE] if warmed is None else warmed[0]
            z = step.work.logits[:n] / temperature[:n, None]
            left = self._left_by_filters(z, ids, cuts)
            return (z - z.gather(1, ids[:, None]) + logp[:, None]).masked_fill(~left, float("-inf"))

        return Drawn(ids, logp, distribution, entropy)

    def _left_by_filters(self, z: Tensor, ids: Tensor, cuts: tuple[Tensor, ...] | None) -> Tensor:
        """[lane, V] the tokens that the filters of a step have left; `z` are logits over the temperature."""
        n, token = len(z), torch.arange(z.shape[1], device=z.device)
        left = (self.lane_ints[TOP_K, :n, None] != 1) | (token == ids[:, None])
        if cuts is not None:
            cut, edge = (x[:n, None] for x in cuts[:2])
            depth = z.amax(-1, keepdim=True) - z
            left &= (depth < cut) | ((depth == cut) & (token <= edge))
        return left

    def _record_lanes(
        self, step: PagedStep, at: Tensor, cuts: tuple[Tensor, ...] | None, warmed: tuple[Tensor, ...] | None
    ) -> None:
        """Record the sets that a step has drawn from. The host waits for the device."""
        n, (live,) = step.rows, (self.lane_ints[ALIVE, : step.rows] > 0).nonzero(as_tuple=True)
        logits, temperature = step.work.logits[:n], self.lane_numbers[TEMPERATURE] if warmed is None else warmed[0]
        left = self._left_by_filters(logits / temperature[:n, None], self.kept["ids"].view(-1)[at], cuts)
        numbers = self.lane_numbers[:, :n]
        truncated = Filters(self.lane_ints[TOP_K, :n], numbers[TOP_P], numbers[MIN_P]).truncated
        kept = KeptTokens.of((left & truncated[:, None] & (logits > EXCLUDED * 0.5))[live])
        self._record_sets(at[live], self._lane_states[:n][live], kept)

    def _rule(self, step: PagedStep) -> None:
        """Exclude the tokens that grammars do not allow, and compute the statistics of the logits again."""
        n, row = step.rows, self.lane_ints[-1, : step.rows]
        self._lane_states[:n] = self.states[row]  # −1, no row, is the last state, which is nobody's
        logits, (peak, *weights) = step.work.logits[:n], step.work.statistics
        self.grammars.exclude(logits, self._lane_states[:n])
        z = plain._tiled(logits / self.lane_numbers[TEMPERATURE, :n, None])
        peak[:n] = z.amax(-1)
        for out, value in zip(weights, plain._weighed(z, peak[:n]), strict=True):
            out[:n] = value

    def _launch(
        self,
        step: PagedStep,
        do: Any,
        cuts: tuple[Tensor, ...] | None,
        warmed: tuple[Tensor, ...] | None,
        ruled: bool,
    ) -> None:
        ints, numbers, pages = self.lane_ints, self.lane_numbers, self.engine.pages
        waiting = self.lane, self.line, self.ends
        step.kernels.assemble(
            step.rows, self.slots, waiting, (self.ints, self.numbers, pages.table), (ints, numbers, pages.front)
        )
        temperature = numbers[TEMPERATURE]
        step.launch(ints[TOKEN], ints[POSITION], temperature)
        if ruled:
            self._rule(step)
        scores: tuple[Any, ...] = step.rows, step.work.logits, step.work.statistics, temperature
        if warmed is not None:
            heat, *of = warmed
            do.warm(*scores, numbers[WARMTH:], heat, tuple(of))
            scores = step.rows, step.work.logits, tuple(of), heat
        if cuts is not None:
            do.truncate(*scores, ints[ALIVE], (ints[TOP_K], numbers[TOP_P], numbers[MIN_P]), cuts)
        written = tuple(self.kept[name].view(-1) for name in WRITTEN)
        inputs = self.uniform.view(-1), ints, self.stops.table, written
        do.choose(*scores, *inputs, self.ints, (self.lane, self.ends, self.seen), cuts)
        if ruled:
            n = step.rows
            token = self.kept["ids"].view(-1)[ints[FLAT, :n]]
            after = self.grammars.after(self._lane_states[:n], token)
            self.states[ints[-1, :n]] = after.where(ints[ALIVE, :n] > 0, 0)

    def _report(self) -> RowReport:
        """Which rows the host must look at, once the device is done; the host need not wait until then."""

        def rows_seen(seen: NDArray[np.int64]) -> dict[int, int]:
            rows = np.flatnonzero(seen)
            return dict(zip(rows.tolist(), (seen[rows] - 1).tolist(), strict=True))

        if self._side is None:
            rows = rows_seen(self.seen.numpy())
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
            return rows_seen(host.numpy())

        return wait

    def _read(self, names: Iterable[str], slots: Sequence[int], count: int) -> dict[str, NDArray[Any]]:
        """Read on another stream, in parallel with the burst that is under way, which writes elsewhere."""
        if self._side is None or self._event is None:
            return super()._read(names, slots, count)
        with torch.cuda.stream(self._side):
            self._side.wait_event(self._event)
            return super()._read(names, slots, count)

    def _send(self, *arrays: NDArray[Any]) -> list[Tensor]:
        return send_arrays(self.device, *arrays)
