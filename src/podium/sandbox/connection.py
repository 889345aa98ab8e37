"""The process of a sandbox's server, and the messages to and from it."""

from __future__ import annotations

import atexit
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

from podium.core.errors import PodiumError
from podium.core.printable import one_line
from podium.sandbox.folders import remove_folder
from podium.sandbox.frames import ANSWER, LARGEST_REQUEST, Frames, packed

__all__ = ["Connection", "CallOutcome", "exiting"]

START_S = 120.0  # seconds for the server to load its modules
END_S = 5.0  # seconds for the server to end its processes
PASSED_ON = ("PATH", "LANG", "LC_ALL")  # of the environment: the rest may hold secrets
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")  # a sandboxed process may start none
FAILURES = ("", "error", "timeout", "memory", "violation", "crash", "ended")


@dataclass(frozen=True)
class CallOutcome:
    """What a call returned, or why it failed.

    Failures: error (it raised), timeout, memory, violation (it tried what is forbidden), crash, ended (there is no such
    session any more, or no server).
    """

    value: Any = None
    failure: str = ""
    detail: str = ""
    cpu_s: float = 0.0  # processor time, as the system measured it


ENDED = CallOutcome(failure="ended", detail="the sandbox was closed, or its server has died")


class _Waiter:
    """A caller that waits for its answer."""

    def __init__(self) -> None:
        self.ready, self.answer = threading.Event(), b""


class Connection:
    """A running server, and a thread that passes its answers to the callers."""

    def __init__(self, *, confined: bool, **settings: Any) -> None:
        folder = tempfile.mkdtemp(prefix="podium-sandbox-")
        error_file = Path(folder, "stderr")
        channel, server_end = socket.socketpair()
        with server_end, open(error_file, "wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "podium.sandbox.server", str(os.getpid())],
                stdin=server_end.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=errors,
                cwd=folder,
                env=_environment(folder, confined),
                start_new_session=True,
            )
        self._channel, self._sending, self._numbers = channel, threading.Lock(), count(1)
        self._waiters: dict[int, _Waiter] = {}
        self._running, self.closed, self._owner = True, False, os.getpid()
        self._end = weakref.finalize(self, _end, channel, self._process, folder, self._owner)
        _watch_for_exit()
        reader = threading.Thread(target=_read, args=(weakref.ref(self), channel, self._waiters), daemon=True)
        reader.name = "podium-sandbox"
        reader.start()
        outcome = self.ask({**settings, "confined": confined, "folder": folder}, 0, START_S)
        if outcome.failure:
            lines = error_file.read_text(errors="replace").splitlines() if error_file.is_file() else []
            reason = outcome.detail if outcome.failure != "ended" else lines[-1] if lines else "its server has ended"
            self.close()
            raise PodiumError(f"The sandbox could not be started: {one_line(reason).rstrip('.')}.")

    @property
    def alive(self) -> bool:
        """Whether calls can be made; never in a process that was forked from the one that started it."""
        return self._running and self._owner == os.getpid()

    def number(self) -> int:
        """The number of a request to come."""
        return next(self._numbers)

    def send(self, message: Mapping[str, Any]) -> None:
        """Send a message that has no answer."""
        self._send(packed(message))

    def _send(self, data: bytes) -> None:
        if self.alive:
            with self._sending, suppress(OSError):  # that a server has ended is noticed when its answer is read
                self._channel.sendall(data)

    def ask(self, message: Mapping[str, Any], number: int | None = None, wait_s: float | None = None) -> CallOutcome:
        """Send a message and wait for its answer: the server limits how long that takes, unless `wait_s` does."""
        number = self.number() if number is None else number
        data = packed({"id": number, **message})
        if len(data) > LARGEST_REQUEST:
            return CallOutcome(failure="error", detail=f"the arguments are larger than {LARGEST_REQUEST >> 20} MB")
        waiter = self._waiters[number] = _Waiter()
        try:
            self._send(data)
            if self.alive:  # if it ends from here on, the thread that reads wakes this one
                waiter.ready.wait(wait_s)
        finally:
            self._waiters.pop(number, None)
        return _outcome(waiter.answer)

    def close(self) -> None:
        """End the server; every caller that waits for an answer gets `ended`."""
        self.closed, self._running = True, False
        self._end()


_exit = threading.Event()


def exiting() -> bool:
    """Whether this process is ending, so that no server may be started any more."""
    return _exit.is_set()


@cache
def _watch_for_exit() -> None:
    atexit.register(_exit.set)  # after `finalize` has registered itself, so that this is done first


def _outcome(answer: bytes) -> CallOutcome:
    """An answer as an outcome. What a process has written may be anything."""
    if not answer:
        return ENDED
    _, cpu_s = ANSWER.unpack_from(answer)
    try:
        content = json.loads(answer[ANSWER.size :])
        if not isinstance(content, dict) or not content.keys() <= {"value", "failure", "detail"}:
            raise ValueError("not an answer")
        if content.get("failure", "") not in FAILURES:
            raise ValueError("not an answer")
    except (ValueError, RecursionError, MemoryError):
        return CallOutcome(failure="crash", detail="its answer makes no sense", cpu_s=cpu_s)
    failure, detail = content.get("failure", ""), one_line(str(content.get("detail", "")))
    return CallOutcome(None if failure else content.get("value"), failure, detail, cpu_s)


def _read(connection: weakref.ref[Connection], channel: socket.socket, waiters: dict[int, _Waiter]) -> None:
    """Pass answers on until the server ends; then wake every caller that still waits."""
    frames = Frames(1 << 31)
    try:
        with suppress(OSError):
            while data := channel.recv(1 << 16):
                for answer in frames.add(data):
                    waiter = waiters.get(ANSWER.unpack_from(answer)[0])
                    if waiter is not None:
                        waiter.answer = answer
                        waiter.ready.set()
    finally:
        living = connection()
        if living is not None:
            living._running = False
        for waiter in list(waiters.values()):
            waiter.ready.set()


def _end(channel: socket.socket, process: subprocess.Popen[bytes], folder: str, owner: int) -> None:
    if os.getpid() != owner:  # a forked process: the server is its parent's
        channel.close()
        return
    with suppress(OSError):
        channel.shutdown(socket.SHUT_RDWR)  # wakes the reader; the server ends its calls and itself
    try:
        process.wait(END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    channel.close()
    remove_folder(folder)


def _environment(folder: str, confined: bool) -> dict[str, str]:
    """The environment of the server: without this process's secrets, if what it runs is not trusted."""
    passed = {name: os.environ[name] for name in PASSED_ON if name in os.environ} if confined else dict(os.environ)
    paths = [os.path.abspath(path) for path in sys.path if path]
    return {
        **passed,
        **dict.fromkeys(THREADS, "1"),
        "PYTHONPATH": os.pathsep.join(paths),
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "TMPDIR": folder,
        **({"HOME": folder} if confined else {}),
    }
