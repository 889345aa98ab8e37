"""What rows on a GPU are doing: several tokens of each drawn by captured graphs before the host looks at them."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from podium.policy.cuda.decode import Captured, PagedStep
from podium.policy.cuda.draw_trial import draw_trial
from podium.policy.cuda.pages import sent
from podium.policy.policy import Policy
from podium.sampler.board import (
    ALIVE,
    FLAT,
    LAST,
    MIN_P,
    POSITION,
    STOPS,
    TEMPERATURE,
    TOKEN,
    TOP_K,
    TOP_P,
    WARMTH,
    Board,
    Report,
    Seat,
)
from podium.sampler.draw import Drawn
from podium.sampler.stops import Stops

if TYPE_CHECKING:
    from podium.sampler.paged import Paged

__all__ = ["AHEAD", "PagedBoard"]

AHEAD = 8  # tokens of each row that are drawn before the host looks at them
WRITTEN = "ids", "logp", "entropy"  # what the kernels keep of every token


class PagedBoard(Board):
    """Draws by kernels of the captured step; what else rows want to keep of a token is found after each step."""

    engine: Paged
    few = 1 << 15  # the host takes 150 us for them; to make them, some 20 launches, the GPU stands idle for 100 us

    def __init__(self, policy: Policy, engine: Paged, stops: Stops) -> None:
        super().__init__(policy, engine, stops)
        self.kept["entropy"] = torch.zeros((1, 0), device=self.device)
        self.seen = torch.zeros(0, dtype=torch.int8, device=self.device)
        self._left: set[int] = set()  # rows without a completion whose state has not been cleared
        self._graphs: dict[tuple[int, int, bool, bool], Captured] = {}
        self._cuts: tuple[Tensor, ...] | None = None  # how far down each row goes
        self._warmed: tuple[Tensor, ...] | None = None  # temperatures that follow the entropy, statistics at them
        self._tried: bool | None = None  # whether truncated and warmed draws have kernels that work
        self._drawn_for: tuple[int, ...] = ()  # places of the tensors for which they were made
        self._side: Any = None  # a stream for reading
        if self.device.type == "cuda":
            self._side = torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]
        self._event: Any = None  # when what was last looked at had been written

    def ahead(self, marks: Mapping[str, int]) -> int:
        special = marks.get("filter", 0) + marks.get("warmth", 0) > 0
        return 1 if special and not self._able() else AHEAD

    def _able(self) -> bool:
        """Whether the kernels of truncated and warmed draws work here: tried at the first such draw."""
        if self._tried is None:
            reason = draw_trial(self.engine.pages.kernels, self.policy.vocabulary, self.device)
            self._tried = reason is None
            if reason is not None:
                said = f"Draws with top_k, top_p, min_p or a warmth go through torch here, token by token: {reason}."
                warnings.warn(said, stacklevel=2)
        return self._tried

    def reserve(self, rows: int, tokens: int) -> None:
        whole = self.engine.pages.kernels.ROWS
        super().reserve(-(-rows // whole) * whole, tokens)
        if len(self.seen) < self.ints.shape[1]:
            self.seen = self.seen.new_zeros(self.ints.shape[1])

    def seat(self, seats: Sequence[Seat]) -> None:
        self._left.difference_update(seat.row for seat in seats)
        super().seat(seats)

    def clear(self, rows: Sequence[int]) -> None:
        """Before the next step; until then others may take them."""
        self._left.update(rows)

    def move(self, source: Sequence[int], target: Sequence[int], left: int, total: int) -> None:
        self._left.clear()  # others take their places, or they are among the last
        super().move(source, target, left, total)

    def advance(self, n: int, length: int, marks: Mapping[str, int], count: int = 1) -> Report:
        if self._left:
            super().clear(list(self._left))
            self._left.clear()
        if self.ahead(marks) == 1:
            self._event = None
            return super().advance(n, length, marks)
        written = (self.kept[name] for name in WRITTEN)
        tensors = (self.ints, self.numbers, self.uniform, self.seen, self.stops.table, *written)
        places = (self.engine.voided, *(x.data_ptr() for x in tensors))
        if places != self._drawn_for:
            if self._side is not None:
                torch.cuda.synchronize(self.device)  # a graph must not go while it is being replayed
            self._graphs.clear()
            self._cuts = self._warmed = None
            self._drawn_for = places
        self.engine.pages.settle()
        truncated, warmed = (marks.get(mark, 0) > 0 for mark in ("filter", "warmth"))
        step = self.engine.laid_out(n, length)
        of = step.work.statistics
        if truncated and self._cuts is None:
            self._cuts = step.kernels.cuts(*of[0].shape, self.device)
        if warmed and self._warmed is None:
            self._warmed = of[0].new_empty(len(of[0])), *map(torch.empty_like, of)
        cuts, heat = self._cuts if truncated else None, self._warmed if warmed else None
        key = n, self.engine.pages.step_length(length), truncated, warmed
        graph = self._graphs.setdefault(key, Captured(self.device))
        wanted = [mark.removeprefix("capture ") for mark, rows in marks.items() if rows and mark.startswith("capture ")]
        further = [name for name in wanted if name not in WRITTEN]
        for _ in range(count):
            at = self.ints[FLAT, :n] * self.ints[ALIVE, :n] if further else None  # rows that have ended write to slot 0
            graph(lambda: self._launch(step, cuts, heat))
            if at is not None:
                drawn = self._drawn(step, at, cuts, heat)
                for name in further:
                    self._keep(name, drawn, at)
        return self._report(n)

    def _drawn(
        self, step: PagedStep, at: Tensor, cuts: tuple[Tensor, ...] | None, warmed: tuple[Tensor, ...] | None
    ) -> Drawn:
        """What a step has drawn and written at these places, and from which distribution."""
        n, (ids, logp, entropy) = step.rows, (self.kept[name].view(-1)[at] for name in WRITTEN)

        def distribution() -> Tensor:
            temperature = self.numbers[TEMPERATURE] if warmed is None else warmed[0]
            z = step.work.logits[:n] / temperature[:n, None]
            token = torch.arange(z.shape[1], device=z.device)
            left = (self.ints[TOP_K, :n, None] != 1) | (token == ids[:, None])
            if cuts is not None:
                cut, edge = (x[:n, None] for x in cuts[:2])
                depth = z.amax(-1, keepdim=True) - z
                left &= (depth < cut) | ((depth == cut) & (token <= edge))
            return (z - z.gather(1, ids[:, None]) + logp[:, None]).masked_fill(~left, float("-inf"))

        return Drawn(ids, logp, distribution, entropy)

    def _launch(self, step: PagedStep, cuts: tuple[Tensor, ...] | None, warmed: tuple[Tensor, ...] | None) -> None:
        i, numbers, do = self.ints, self.numbers, step.kernels
        temperature = numbers[TEMPERATURE]
        step.launch(i[TOKEN], i[POSITION], temperature)
        scores: tuple[Any, ...] = step.rows, step.work.logits, step.work.statistics, temperature
        if warmed is not None:
            heat, *of = warmed
            do.warm(*scores, numbers[WARMTH:], heat, tuple(of))
            scores = step.rows, step.work.logits, tuple(of), heat
        if cuts is not None:
            do.truncate(*scores, i[ALIVE], (i[TOP_K], numbers[TOP_P], numbers[MIN_P]), cuts)
        state = tuple(i[what] for what in (TOKEN, POSITION, FLAT, LAST, ALIVE, STOPS, TOP_K))
        written = tuple(self.kept[name].view(-1) for name in WRITTEN)
        do.choose(*scores, self.uniform.view(-1), state, self.stops.table, written, self.seen, cuts)

    def _report(self, n: int) -> Report:
        """What the device says when it has come so far; the host may go on meanwhile."""
        if self._side is None:
            rows = self.seen[:n].nonzero().view(-1).tolist()
            self.seen.zero_()
            return lambda: rows
        host = torch.empty(n, dtype=torch.int8, pin_memory=True)
        host.copy_(self.seen[:n], non_blocking=True)
        self.seen.zero_()
        event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        event.record()

        def wait() -> list[int]:
            event.synchronize()
            self._event = event
            found: list[int] = np.flatnonzero(host.numpy()).tolist()
            return found

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
