"""Preemption: a signal asks a run to stop, and the run stops where nothing is lost.

The state of a run changes only while it trains. While it loads, samples or evaluates, it may stop at once
(`StopRequest.allow`). Once an update has begun (`forbid`), it finishes the iteration first, within a grace period.
"""

from __future__ import annotations

import os
import queue
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from podium.core.ranks import ALONE, Ranks

__all__ = ["Preempted", "StopRequest"]

PREEMPTING = (signal.SIGTERM, signal.SIGUSR1)
# Signals in quick succession count as one: a launcher may forward what the whole process group has received.
SAME_S = 1.0


class Preempted(BaseException):
    """Raised in the main thread to stop a run. Not an `Exception`, which would count as a failure of the world."""


class StopRequest:
    """Whether a signal has asked a run to stop, and whether it may do so at once.

    The first SIGTERM or SIGUSR1 raises `Preempted` where that is allowed, and is remembered elsewhere. A second one, or
    the end of the grace period, raises it anywhere. `tell` gets a line on what happens.
    """

    def __init__(self, grace_s: float = 0.0, tell: Callable[[str], None] | None = None, ranks: Ranks = ALONE) -> None:
        self.grace_s, self.tell, self.ranks = grace_s, tell or (lambda text: None), ranks
        self.asked_by: signal.Signals | None = None
        self.at_once = False  # after a second signal or the end of the grace period: stop without a checkpoint
        self.checkpoint_s = 0.0  # how long a checkpoint takes, which the grace period must leave time for
        self._allowed = False
        self._asked_at = 0.0
        self._overdue = False
        self._deadlines: queue.SimpleQueue[float | None] = queue.SimpleQueue()

    @property
    def preempted(self) -> bool:
        """Whether the request came from the system, rather than from a person at the keyboard."""
        return self.asked_by in PREEMPTING

    def allow(self) -> None:
        """From here on the run may stop at any point. Several ranks stop together, at the end of an iteration."""
        if self.ranks.size > 1:
            return
        self._allowed = True
        if self.preempted:
            raise Preempted

    def forbid(self) -> None:
        """From here on the state of the run changes, and it may not stop."""
        self._allowed = False

    @contextmanager
    def allowed(self) -> Iterator[None]:
        """A block in which the run may stop at any point."""
        try:
            self.allow()
            yield
        finally:
            self.forbid()

    def agree(self) -> None:
        """What one rank has been asked to do, all do."""
        asked = [number for number in self.ranks.gather(self.asked_by) if number is not None]
        self.asked_by = self.asked_by or next(iter(asked), None)

    def end_grace(self) -> None:
        """The iteration has ended within the grace period: let the checkpoint take its time."""
        if self.preempted:
            self._deadlines.put(None)

    @contextmanager
    def on_preemption(self) -> Iterator[None]:
        """Handle the signals with which a system preempts a process; only the main thread can."""
        watch = threading.Thread(target=self._watch, args=(threading.get_ident(),), daemon=True, name="podium-grace")
        with _handling(PREEMPTING, self._preempt) as handled:
            if handled:
                watch.start()  # not when the signal comes: a handler may have interrupted the start of another thread
            try:
                yield
            finally:
                self._deadlines.put(None)
                if handled:
                    watch.join()  # it must not send a signal that nobody handles any more

    @contextmanager
    def on_interrupt(self) -> Iterator[None]:
        """Ctrl-C ends the run after the current iteration, with a checkpoint; a second one ends it at once."""
        with _handling((signal.SIGINT,), self._interrupt):
            yield

    def _interrupt(self, number: int) -> None:
        if self.asked_by is not None:
            raise KeyboardInterrupt
        self.asked_by = signal.Signals(number)

    def _preempt(self, number: int) -> None:
        if not self.preempted:
            self.asked_by, self._asked_at = signal.Signals(number), time.monotonic()
            if self._allowed:
                self._report("stopping here; a checkpoint follows where there is something to save …")
                raise Preempted
            self._deadlines.put(max(0.0, self.grace_s - self.checkpoint_s))
            self._report(f"checkpointing after this iteration, if it ends within {self.grace_s:g} s …")
        elif self._overdue or time.monotonic() - self._asked_at >= SAME_S:
            self.at_once = True
            for preempting in PREEMPTING:  # a third one does not depend on this process any more
                signal.signal(preempting, signal.SIG_DFL)
            raise Preempted

    def _report(self, text: str) -> None:
        assert self.asked_by is not None
        with suppress(RuntimeError):  # the signal has interrupted another line that was being printed
            self.tell(f"{self.asked_by.name}: {text}")

    def _watch(self, main_thread: int) -> None:
        """In a thread: send the signal again when the grace period is over."""
        deadline_s = self._deadlines.get()
        if deadline_s is None:
            return
        try:
            self._deadlines.get(timeout=deadline_s)
        except queue.Empty:
            assert self.asked_by is not None
            self._overdue = True
            signal.pthread_kill(main_thread, self.asked_by)


# -- handlers ----------------------------------------------------------------------------------------------------------

_replaced: dict[int, Any] = {}  # the previous handlers of signals that a run handles now
_fork = threading.local()  # `mask`: the signals that the forking thread had blocked


@contextmanager
def _handling(numbers: Sequence[signal.Signals], handle: Callable[[int], None]) -> Iterator[bool]:
    """Handle signals in this block; yields False in other threads than the main one, where Python handles none."""
    if threading.current_thread() is not threading.main_thread():
        yield False
        return
    # None: a handler that was not installed by Python, which cannot put it back
    before: dict[int, Any] = {number: signal.getsignal(number) or signal.SIG_DFL for number in numbers}
    _replaced.update(before)
    for number in numbers:
        signal.signal(number, lambda number, _: handle(number))
    try:
        yield True
    finally:
        for number in numbers:
            signal.signal(number, before[number])
            _replaced.pop(number, None)


# A child that a world forks gets the previous handlers back: it must end when the world sends it SIGTERM. The signals
# are blocked meanwhile, since Python forgets one that reaches a child in its first moment.
def _before_fork() -> None:
    _fork.mask = signal.pthread_sigmask(signal.SIG_BLOCK, list(_replaced))


def _in_parent() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, _fork.mask)


def _in_child() -> None:
    for number, handler in _replaced.items():
        signal.signal(number, handler)
    signal.pthread_sigmask(signal.SIG_SETMASK, _fork.mask)


os.register_at_fork(before=_before_fork, after_in_parent=_in_parent, after_in_child=_in_child)
