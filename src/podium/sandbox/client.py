"""Calling functions in a sandbox."""

from __future__ import annotations

import os
import threading
import weakref
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

from podium.core.errors import PodiumError
from podium.sandbox.confine import unconfinable
from podium.sandbox.connection import CallOutcome, Connection, exiting
from podium.sandbox.limits import Limits

__all__ = ["Sandbox", "SandboxedCall", "Session"]


class SandboxedCall(NamedTuple):
    """A function by `module:name`, and its arguments, which JSON can hold."""

    function: str
    arguments: tuple[Any, ...]


class Sandbox:
    """Functions in processes of their own.

    `preload` names the modules that the server loads once; `prepare` lists calls that it then makes, for the state that
    they leave in these modules. Both are trusted. `readable` lists paths that the functions may read, besides Python's
    own files and those of the packages in `preload`. Up to `max_processes` run at once; further calls wait. With
    `confined=False` the processes are separate and killable, but otherwise as free as this one.

    Thread-safe. The server starts with the first call, and again if it has died or the sandbox was closed; a call under
    which it dies is made once more.
    """

    def __init__(
        self,
        preload: Sequence[str] = (),
        *,
        prepare: Sequence[SandboxedCall] = (),
        readable: Sequence[str] = (),
        limits: Limits = Limits(),
        max_processes: int = 64,
        confined: bool = True,
    ) -> None:
        self.preload, self.prepared = tuple(preload), list(prepare)
        self.readable, self.limits = tuple(readable), limits
        self.max_processes, self.confined = max_processes, confined
        self.failures: Counter[str] = Counter()  # of each kind so far
        self._change, self._counting = threading.RLock(), threading.Lock()
        self._connection: Connection | None = None
        _instances.add(self)

    def call(self, function: str, *arguments: Any, limits: Limits | None = None) -> CallOutcome:
        """The outcome of a function, given as `module:name`, whose arguments and value JSON can hold."""
        message = {"do": "call", "function": function, "arguments": arguments, "limits": asdict(limits or self.limits)}
        connection = self.start()
        outcome = connection.ask(message)
        if outcome.failure == "ended" and not connection.closed and not exiting():
            outcome = self.start().ask(message)
        return self._counted(outcome)

    def open(self, function: str, *arguments: Any, limits: Limits | None = None) -> tuple[Session | None, CallOutcome]:
        """A session: the function makes a handler, in a process that lives until the session is closed."""
        message = {"do": "open", "function": function, "arguments": arguments, "limits": asdict(limits or self.limits)}
        connection = self.start()
        number = connection.number()
        outcome = self._counted(connection.ask(message, number))
        return (None if outcome.failure else Session(self, connection, number)), outcome

    def prepare(self, function: str, *arguments: Any) -> None:
        """Have the server make a trusted call, once. The state that it leaves in the server's modules is there for
        processes that start from now on."""
        call = SandboxedCall(function, arguments)
        with self._change:
            if call in self.prepared:
                return
            if self._connection is not None and self._connection.alive:
                outcome = self._connection.ask({"do": "prepare", "function": function, "arguments": arguments})
                if outcome.failure == "error":
                    raise PodiumError(f"The sandbox could not be prepared: {outcome.detail}.")
                if outcome.failure:
                    self.close()  # the next server makes it at its start
            self.prepared.append(call)

    def close(self) -> None:
        """End the server and all calls; the next call starts it again."""
        with self._change:
            connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _counted(self, outcome: CallOutcome) -> CallOutcome:
        if outcome.failure:
            with self._counting:
                self.failures[outcome.failure] += 1
        return outcome

    def start(self) -> Connection:
        """Start the server, unless it runs already."""
        with self._change:
            if self._connection is None or not self._connection.alive:
                self.close()
                if self.confined and (reason := unconfinable()):
                    raise PodiumError(
                        f"Code that is not trusted cannot be confined on this system: {reason}. Use Linux on x86-64 or "
                        "64-bit ARM, in a container or a virtual machine if need be."
                    )
                self._connection = Connection(
                    preload=self.preload,
                    prepare=self.prepared,
                    readable=self.readable,
                    max_processes=self.max_processes,
                    confined=self.confined,
                )
            return self._connection

    def _after_fork(self) -> None:
        """Forget the parent's server: a forked process starts its own if it needs one."""
        self._change, self._counting, self._connection = threading.RLock(), threading.Lock(), None


class Session:
    """A handler in a process of its own, which answers one request after another."""

    def __init__(self, sandbox: Sandbox, connection: Connection, number: int) -> None:
        self._sandbox, self._connection, self._number = sandbox, connection, number

    @property
    def alive(self) -> bool:
        """Whether the server of this session is running."""
        return self._connection.alive

    def ask(self, *arguments: Any) -> CallOutcome:
        """What the handler returns for these arguments. After any failure but an error, the session has ended."""
        return self._sandbox._counted(
            self._connection.ask({"do": "ask", "session": self._number, "arguments": arguments})
        )

    def close(self) -> None:
        self._connection.send({"do": "close", "session": self._number})


_instances: weakref.WeakSet[Sandbox] = weakref.WeakSet()


def _after_fork() -> None:
    for sandbox in list(_instances):
        sandbox._after_fork()


os.register_at_fork(after_in_child=_after_fork)
