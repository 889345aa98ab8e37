"""Calling functions in a sandbox."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import weakref
from collections import Counter, deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import count
from typing import Any, NamedTuple

from podium.core.errors import PodiumError
from podium.sandbox.confine import unconfinable
from podium.sandbox.frames import Frames, packed
from podium.sandbox.limits import MB, Limits

__all__ = ["Outcome", "Sandbox", "SandboxedCall", "Session", "Workers"]

LARGEST = 64 * MB  # bytes of an answer
START_S = 120.0  # seconds for the server to load its modules
PASSED_ON = ("PATH", "LANG", "LC_ALL", "SYSTEMROOT")  # of the environment: the rest may hold secrets
CORES = os.cpu_count() or 1
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")  # a sandboxed process may start none


@dataclass(frozen=True)
class Outcome:
    """What a call returned, or why it failed: error (it raised), timeout, memory, violation, crash or ended."""

    value: Any = None
    failure: str = ""
    detail: str = ""
    cpu_s: float = 0.0  # processor time of the whole call, as the system measured it


class SandboxedCall(NamedTuple):
    """A function by `module:name`, and its arguments, which JSON can hold."""

    function: str
    arguments: tuple[Any, ...]


class _Waiter:
    """A caller that waits for its answer."""

    def __init__(self) -> None:
        self.ready, self.message = threading.Event(), {"failure": "crash", "detail": "the sandbox's server has ended"}


class Sandbox:
    """Functions in processes of their own.

    `preload` names the modules that the server loads once, and `prepare` calls that it then makes, for what they leave
    in these modules; both are trusted. `readable`: paths whose files the functions may read besides
    Python's own. Up to `side_by_side` calls run at once; further ones wait. With `confined=False` the processes are
    separate and killable, but otherwise as free as this one. Thread-safe; the server starts with the first call, and
    again if it has died.
    """

    def __init__(
        self,
        preload: Sequence[str] = (),
        *,
        prepare: Sequence[SandboxedCall] = (),
        readable: Sequence[str] = (),
        limits: Limits = Limits(),
        side_by_side: int = 64,
        confined: bool = True,
    ) -> None:
        self.preload, self.prepare = tuple(preload), tuple(prepare)
        self.readable, self.limits = tuple(readable), limits
        self.side_by_side, self.confined = side_by_side, confined
        self.failures: Counter[str] = Counter()  # of each kind so far
        self._change, self._numbers = threading.Lock(), count(1)
        self._server: _Server | None = None

    def call(self, function: str, *arguments: Any, limits: Limits | None = None) -> Outcome:
        """The outcome of a function, given as `module:name`, whose arguments and value JSON can hold."""
        return self._ask(self._started(), function, arguments, limits, session=False)[1]

    def open(self, function: str, *arguments: Any, limits: Limits | None = None) -> tuple[Session | None, Outcome]:
        """A session: the function makes a handler, in a process that lives until the session is closed."""
        server = self._started()
        number, outcome = self._ask(server, function, arguments, limits, session=True)
        return (None if outcome.failure else Session(self, server, number)), outcome

    def _ask(
        self, server: _Server, function: str, arguments: Sequence[Any], limits: Limits | None, *, session: bool
    ) -> tuple[int, Outcome]:
        number = next(self._numbers)
        request = {"id": number, "function": function, "arguments": list(arguments), "session": session}
        return number, self._outcome(server, {**request, "limits": asdict(limits or self.limits)})

    def _outcome(self, server: _Server, message: dict[str, Any]) -> Outcome:
        answer = server.ask(message)
        answer.pop("id", None)
        outcome = Outcome(**answer)
        if outcome.failure:
            with self._change:
                self.failures[outcome.failure] += 1
        return outcome

    def _started(self) -> _Server:
        with self._change:
            if self._server is None or not self._server.alive:
                if self.confined and (reason := unconfinable()):
                    raise PodiumError(
                        f"Code that is not trusted cannot be confined on this system: {reason}. Use Linux on x86-64 or "
                        "64-bit ARM, in a container or a virtual machine if need be."
                    )
                self._server = _Server(self)
            return self._server

    def close(self) -> None:
        """End the server and all calls; the next call starts it again."""
        with self._change:
            server, self._server = self._server, None
        if server is not None:
            server.close()


class Workers:
    """One function in processes that answer call after call: faster than a process per call, for functions that let
    nothing of an argument survive in the process. A process that fails is replaced.

    There are as many as the machine has cores. Where all are busy for longer than `patience_s`, more are started, so
    that calls that hang do not hold up the others.
    """

    def __init__(self, sandbox: Sandbox, function: str, *, patience_s: float = 0.05, calls: int = 1000) -> None:
        self.sandbox, self.function, self.patience_s, self.calls = sandbox, function, patience_s, calls
        self._idle: deque[tuple[Session, int]] = deque()  # with the number of calls that each has answered
        self._working, self._change = 0, threading.Condition()

    def call(self, *arguments: Any) -> Outcome:
        """What the function returns for these arguments, or why it failed."""
        session, answered = self._take()
        if session is None:
            session, opened = self.sandbox.open("podium.sandbox.server:resolve", self.function)
            if session is None:
                self._give(None, 0)
                return opened
        outcome = session.ask(*arguments)
        if outcome.failure and outcome.failure != "error":
            session.close()
            session = None
        self._give(session, answered + 1)
        return outcome

    def _take(self) -> tuple[Session | None, int]:
        with self._change:
            if not self._idle and self._working >= CORES:
                self._change.wait_for(lambda: self._idle or self._working < CORES, self.patience_s)
            self._working += 1
            return self._idle.pop() if self._idle else (None, 0)

    def _give(self, session: Session | None, answered: int) -> None:
        with self._change:
            self._working -= 1
            keep = session is not None and answered < self.calls and len(self._idle) < CORES
            if keep and session is not None:
                self._idle.append((session, answered))
            self._change.notify()
        if session is not None and not keep:
            session.close()


class Session:
    """A handler in a process of its own, which answers one request after another."""

    def __init__(self, sandbox: Sandbox, server: _Server, number: int) -> None:
        self._sandbox, self._server, self._number = sandbox, server, number

    def ask(self, *arguments: Any) -> Outcome:
        """What the handler returns for these arguments. After any failure but an error, the session has ended."""
        number = next(self._sandbox._numbers)
        message = {"id": number, "do": "ask", "session": self._number, "arguments": list(arguments)}
        return self._sandbox._outcome(self._server, message)

    def close(self) -> None:
        self._server.send({"do": "close", "session": self._number})


class _Server:
    """The process of a sandbox's server, and a thread that passes its answers on."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.folder = tempfile.mkdtemp(prefix="podium-sandbox-")
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "podium.sandbox.server", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                cwd=self.folder,
                env=_environment(self.folder, sandbox.confined),
                start_new_session=True,
            )
        self._channel, self._sending = ours, threading.Lock()
        self._waiters: dict[int, _Waiter] = {}
        self.alive = True
        self._end = weakref.finalize(self, _end, ours, self._process, self.folder)
        first = self._waiters[0] = _Waiter()
        reader = threading.Thread(target=_read, args=(weakref.ref(self), ours, self._waiters), daemon=True)
        reader.name = "podium-sandbox"
        reader.start()
        modules = {"preload": sandbox.preload, "prepare": sandbox.prepare, "readable": sandbox.readable}
        processes = {"confined": sandbox.confined, "side_by_side": sandbox.side_by_side, "folder": self.folder}
        self.send({**modules, **processes})
        ready = first.ready.wait(START_S)
        problems = first.message.get("value") if ready and "failure" not in first.message else ["it did not start"]
        if problems:
            self.close()
            raise PodiumError(f"The sandbox could not be started: {'; '.join(problems)}.")

    def send(self, message: dict[str, Any]) -> None:
        with self._sending, suppress(OSError):  # a server that has ended answers by its end
            self._channel.sendall(packed(message))

    def ask(self, message: dict[str, Any]) -> dict[str, Any]:
        waiter = self._waiters[message["id"]] = _Waiter()
        if self.alive:
            self.send(message)
            if self.alive:
                waiter.ready.wait()
        self._waiters.pop(message["id"], None)
        return dict(waiter.message)

    def close(self) -> None:
        self.alive = False
        self._end()


def _read(server: weakref.ref[_Server], channel: socket.socket, waiters: dict[int, _Waiter]) -> None:
    """Pass answers on until the server ends; then everybody who still waits hears of it."""
    frames = Frames(LARGEST)
    with suppress(OSError, ValueError):
        while data := channel.recv(1 << 16):
            for message in frames.add(data):
                waiter = waiters.get(message["id"])
                if waiter is not None:
                    waiter.message = message
                    waiter.ready.set()
    living = server()
    if living is not None:
        living.alive = False
    for waiter in list(waiters.values()):
        waiter.ready.set()


def _end(channel: socket.socket, process: subprocess.Popen[bytes], folder: str) -> None:
    with suppress(OSError):
        channel.shutdown(socket.SHUT_RDWR)  # wakes the reader; the server ends its calls and itself
    channel.close()
    try:
        process.wait(2.0)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    shutil.rmtree(folder, ignore_errors=True)


def _environment(folder: str, confined: bool) -> dict[str, str]:
    """The environment of the server: without this process's secrets, if what it runs is not trusted."""
    passed = {name: os.environ[name] for name in PASSED_ON if name in os.environ} if confined else dict(os.environ)
    paths = [path for path in sys.path if path]
    return {
        **passed,
        **dict.fromkeys(THREADS, "1"),
        "PYTHONPATH": os.pathsep.join(paths),
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "TMPDIR": folder,
        **({"HOME": folder} if confined else {}),
    }
