"""A pool of processes for an isolated world, each of which serves one episode or call at a time."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from podium.core.errors import PodiumError
from podium.protocols.world import FailedAction
from podium.sandbox import Limits, Sandbox, Session

__all__ = ["WorldProcess", "WorldProcesses"]

CORES = os.cpu_count() or 1
PATIENCE_S = 0.05  # for which a call waits before it starts another process
IDLE = 64  # processes that are kept


class WorldProcess:
    """A process with a world, which answers one request after another."""

    def __init__(self, session: Session, limit_s: float) -> None:
        self.session, self.limit_s = session, limit_s
        self.asking = False  # whether it works on a request
        self.clean = True  # whether it can be used for another episode
        self.gone = False  # whether it had ended before it was asked

    def ask(self, do: str, *arguments: Any) -> Any:
        """The value of an answer. A failure of the world is a FailedAction, and what it refuses a PodiumError."""
        self.asking = True
        outcome = self.session.ask(do, *arguments)
        self.asking = False
        answer = outcome.value
        if outcome.failure or not isinstance(answer, dict):
            self.clean, self.gone = False, outcome.failure == "ended"
            raise FailedAction(_failure_reason(outcome.failure, outcome.detail, self.limit_s))
        self.clean = self.clean and answer.get("clean") is True
        if "failure" in answer:
            problem = str(answer["failure"])
            raise PodiumError(problem) if answer.get("refused") is True else FailedAction(problem)
        return answer.get("value")


class WorldProcesses:
    """A pool that keeps the processes which end cleanly for the next use, if they may be reused.

    Unlike those of `podium.sandbox.Workers`, which serve single calls, a process stays with an episode until it ends. A
    single call waits a moment for one of as many processes as the machine has cores, so that quick calls take turns;
    where calls are slow, further processes are started.
    """

    def __init__(
        self, sandbox: Sandbox, function: str, arguments: Sequence[Any], limits: Limits, *, reuse: bool
    ) -> None:
        self.sandbox, self.function, self.arguments = sandbox, function, tuple(arguments)
        self.limits, self.reuse = limits, reuse
        self._idle: deque[WorldProcess] = deque()
        self._abandoned: deque[WorldProcess] = deque()
        self._calls, self._change = 0, threading.Condition()

    def call(self, do: str, *arguments: Any) -> Any:
        """The answer to one request, from a process that is free."""
        with self._change:
            self._change.wait_for(lambda: self._calls < CORES, PATIENCE_S)
            self._calls += 1
        try:
            process, value = self.begin(do, *arguments)
            self._give_back(process)
            return value
        finally:
            with self._change:
                self._calls -= 1
                self._change.notify()

    def begin(self, do: str, *arguments: Any) -> tuple[WorldProcess, Any]:
        """A process, and its answer to a first request."""
        while self._abandoned:
            self._abandoned.pop().session.close()
        while True:
            with self._change:
                kept = self._idle.pop() if self._idle else None
            process = kept or self._started()
            try:
                return process, process.ask(do, *arguments)
            except BaseException:
                self._give_back(process)
                if kept is None or not kept.gone:
                    raise

    def end(self, process: WorldProcess) -> None:
        """Take a process back from an episode; one that still works on a request is ended."""
        if process.asking:
            process.clean = False
        elif self.reuse and process.clean:
            with suppress(FailedAction, PodiumError):  # a world that fails to close does not make the rollout fail
                process.ask("end")
        self._give_back(process)

    def abandon(self, process: WorldProcess) -> None:
        """End a process later, because a destructor, which calls this, must not wait."""
        self._abandoned.append(process)

    def close(self, *, close_worlds: bool) -> None:
        """End the idle processes; with `close_worlds`, each closes its world first, until one fails to."""
        with self._change:
            kept, self._idle = self._idle, deque()
        for process in kept:
            if close_worlds:
                try:
                    process.ask("close")
                except (FailedAction, PodiumError):
                    close_worlds = False
            process.session.close()

    def _started(self) -> WorldProcess:
        session, outcome = self.sandbox.open(self.function, *self.arguments, limits=self.limits)
        if session is not None:
            return WorldProcess(session, self.limits.wall_s)
        kind, _, problem = outcome.detail.partition(": ")
        if outcome.failure == "error" and kind == "PodiumError":
            raise PodiumError(problem)
        raise FailedAction(_failure_reason(outcome.failure, outcome.detail, self.limits.wall_s))

    def _give_back(self, process: WorldProcess) -> None:
        with self._change:
            keep = self.reuse and process.clean and len(self._idle) < IDLE
            if keep:
                self._idle.append(process)
        if not keep:
            process.session.close()


def _failure_reason(failure: str, detail: str, limit_s: float) -> str:
    """Why a process gave no answer, in words."""
    if failure == "timeout" and "processor" not in detail:
        return f"the world did not answer within {limit_s:g} s"
    if failure == "error":
        return f"the world raised {detail}"
    if not failure:
        return "the world's process answered something else than was asked"
    return f"the world's process {detail.removeprefix('it ') if detail.startswith('it ') else 'has ended'}"
