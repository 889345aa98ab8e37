"""A sandboxed process as its server sees it."""

from __future__ import annotations

import os
import platform
import signal
import socket
import time
from contextlib import suppress
from dataclasses import dataclass, field

from podium.sandbox.folders import folder_bytes
from podium.sandbox.frames import Frames
from podium.sandbox.limits import MB, Limits

__all__ = ["LINUX", "TOKEN", "Child", "cpu_seconds", "exit_reason"]

TOKEN = 16  # bytes
FOLDER_S = 0.2  # how often a folder is measured
WAITING_S = 0.5  # how often an idle session is checked, and the processor time that it may use meanwhile
LONG_S = 0.1  # processor time after which a process gets a lower priority, so that calls that hang do not slow others
NICENESS = 10  # of such a process
LINUX = platform.system() == "Linux"


@dataclass(eq=False)
class Child:
    """A process that works on a call, or on the requests of a session one after another."""

    number: int  # of the request that started it
    pid: int
    channel: socket.socket
    limits: Limits
    token: bytes  # with which its answers begin
    folder: str
    session: bool
    request: int  # that it works on
    started: float = field(default_factory=time.monotonic)  # to work on it
    cpu_before: float = 0.0  # processor time that it had used by then
    unsent: bytes = b""  # of the request
    waiting: bool = False  # a session that has answered
    lowered: bool = False
    check_at: float = 0.0  # when its use of resources is checked next
    frames: Frames = field(init=False)

    def __post_init__(self) -> None:
        self.frames = Frames(self.limits.answer_mb * MB + TOKEN)
        self.check_at = self._next_check(self.limits.cpu_s)

    def ask(self, request: int, data: bytes) -> None:
        """Start the clocks of a request that it is about to work on."""
        self.request, self.unsent, self.waiting = request, data, False
        self.started, self.cpu_before = time.monotonic(), cpu_seconds(self.pid)
        self.check_at = self._next_check(self.limits.cpu_s)

    def answered(self) -> float:
        """Note that it has answered; returns the processor time that this took."""
        now = cpu_seconds(self.pid)
        used, self.cpu_before, self.waiting = now - self.cpu_before, now, True
        self.check_at = time.monotonic() + WAITING_S
        return used

    def overrun(self) -> tuple[str, str]:
        """The kind of failure and a sentence if it has exceeded a limit; else two empty texts."""
        now, used = time.monotonic(), cpu_seconds(self.pid) - self.cpu_before
        if self.waiting:
            self.check_at = now + WAITING_S
            return ("violation", "it worked on after its answer") if used > WAITING_S else ("", "")
        if now >= self.started + self.limits.wall_s:
            return "timeout", f"it took more than {self.limits.wall_s:g} s"
        if used >= self.limits.cpu_s:
            return "timeout", f"it took more than {self.limits.cpu_s:g} s of processor time"
        if used >= LONG_S and not self.lowered:
            self.lowered = True
            with suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, self.pid, NICENESS)
        if self.folder:
            written = folder_bytes(self.folder)
            if written is None or written > self.limits.files_mb * MB:
                return "violation", "it wrote more files than is allowed"
        self.check_at = self._next_check(self.limits.cpu_s - used)
        return "", ""

    def _next_check(self, cpu_left: float) -> float:
        delays = [max(cpu_left, 0.001)]
        if self.folder:
            delays.append(FOLDER_S)
        if not self.lowered:
            delays.append(LONG_S)
        return min(self.started + self.limits.wall_s, time.monotonic() + min(delays))


def exit_reason(status: int) -> tuple[str, str]:
    """Why a process ended without an answer: the kind of failure, and a sentence."""
    if not os.WIFSIGNALED(status):
        return "crash", f"it ended with exit code {os.waitstatus_to_exitcode(status)} and without an answer"
    number = os.WTERMSIG(status)
    if number == signal.SIGSYS:
        return "violation", "it made a system call that is forbidden here"
    if number == signal.SIGXFSZ:
        return "violation", "it wrote more to a file than is allowed"
    if number == signal.SIGKILL:
        return "crash", "it gave an answer that was not asked for, or was killed"
    return "crash", f"it was ended by {signal.Signals(number).name}"


def cpu_seconds(pid: int) -> float:
    """The processor time of a process so far, where the system tells it."""
    with suppress(OSError):
        if LINUX:
            return time.clock_gettime((~pid << 3) | 2)  # the number of its clock
    return 0.0
