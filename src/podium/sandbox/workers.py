"""A pool of sandboxed processes for one function."""

from __future__ import annotations

import os
import threading
import time
import weakref
from typing import Any

from podium.sandbox.client import Sandbox, Session
from podium.sandbox.connection import CallOutcome, exiting

__all__ = ["Workers"]

CORES = os.cpu_count() or 1


class Workers:
    """A pool of processes for one function, which answer call after call. This is faster than a process per call, and
    right for functions that keep nothing of their arguments in the process.

    A process is replaced when it fails, and after `calls` calls. There are as many processes as the machine has cores.
    While none of them has answered for `patience_s` seconds, their number doubles, so that calls that hang do not hold
    up the others.
    """

    def __init__(self, sandbox: Sandbox, function: str, *, patience_s: float = 0.1, calls: int = 1000) -> None:
        self.sandbox, self.function, self.patience_s, self.calls = sandbox, function, patience_s, calls
        self._reset()
        _instances.add(self)

    def _reset(self) -> None:
        self._idle: list[_Worker] = []
        self._change, self._busy, self._most = threading.Condition(), 0, CORES
        self._progress = 0.0  # when a process last answered

    def call(self, *arguments: Any) -> CallOutcome:
        """What the function returns for these arguments, or why it failed."""
        outcome = self._attempt(arguments)
        if outcome.failure == "ended" and not exiting():  # the server has died or was closed: no fault of the arguments
            outcome = self._attempt(arguments)
        return outcome

    def prepare(self, function: str, *arguments: Any) -> None:
        """Have the sandbox make a call before the function is called, once."""
        self.sandbox.prepare(function, *arguments)

    def close(self) -> None:
        """End the processes; the next call starts them again."""
        self.sandbox.close()

    def _attempt(self, arguments: tuple[Any, ...]) -> CallOutcome:
        self.sandbox.start()  # before anybody waits for a process: that takes seconds, and is no sign of a stall
        worker, outcome = self._take(), None
        try:
            if worker is None:
                prepared = len(self.sandbox.prepared)
                session, opened = self.sandbox.open("podium.sandbox.child:resolve", self.function)
                if session is None:
                    return opened
                worker = _Worker(session, prepared)
            outcome = worker.session.ask(*arguments)
            worker.answered += 1
            return outcome
        finally:
            self._give(worker, fit=outcome is not None and outcome.failure in ("", "error"))

    def _take(self) -> _Worker | None:
        """A process that is idle; None: one may be started."""
        with self._change:
            while True:
                while self._idle:
                    worker = self._idle.pop()
                    if worker.prepared == len(self.sandbox.prepared) and worker.session.alive:
                        self._busy += 1
                        return worker
                    worker.session.close()
                now = time.monotonic()
                if self._busy >= self._most and now >= self._progress + self.patience_s:
                    self._most, self._progress = 2 * self._most, now
                if self._busy < self._most:
                    if not self._busy:
                        self._progress = now
                    self._busy += 1
                    return None
                self._change.wait(self._progress + self.patience_s - now)

    def _give(self, worker: _Worker | None, *, fit: bool) -> None:
        with self._change:
            self._busy -= 1
            if fit:
                self._progress, self._most = time.monotonic(), max(CORES, min(self._most, self._busy))
            room = self._busy + len(self._idle) < self._most
            if worker is not None and fit and room and worker.answered < self.calls:
                self._idle.append(worker)
                worker = None
            self._change.notify()
        if worker is not None:
            worker.session.close()


class _Worker:
    """A process of `Workers`."""

    def __init__(self, session: Session, prepared: int) -> None:
        self.session, self.prepared, self.answered = session, prepared, 0


_instances: weakref.WeakSet[Workers] = weakref.WeakSet()


def _after_fork() -> None:
    for workers in list(_instances):
        workers._reset()


os.register_at_fork(after_in_child=_after_fork)
