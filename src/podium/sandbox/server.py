"""The server of a sandbox: a process that has loaded its modules once, and forks one process for each call.

    python -m podium.sandbox.server HANDLE

Each call finds the modules as they were loaded, whatever the calls before it have done. The server itself never looks
at what a call has computed beyond passing it on.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import os
import platform
import secrets
import selectors
import shutil
import signal
import socket
import sys
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from podium.sandbox.confine import confine_call, confine_server
from podium.sandbox.frames import Frames, packed, write_all
from podium.sandbox.guard import AnswerIsCode
from podium.sandbox.limits import MB, Limits

__all__ = ["main"]

LARGEST = 64 * MB  # bytes of a request
CHUNK = 1 << 16


@dataclass
class Child:
    """A process that works on a call, or on the requests of a session one after another."""

    pid: int
    channel: socket.socket
    limits: Limits
    token: str
    folder: str
    session: bool
    request: int  # that it works on
    started: float
    frames: Frames = field(init=False)
    late: bool = False
    waiting: bool = False  # a session that has answered

    def __post_init__(self) -> None:
        self.frames = Frames(self.limits.answer_mb * MB)

    @property
    def deadline(self) -> float:
        return float("inf") if self.waiting else self.started + self.limits.wall_s


class Server:
    def __init__(self, channel: socket.socket, settings: dict[str, Any]) -> None:
        self.channel, self.folder = channel, settings["folder"]
        self.confined, self.side_by_side = settings["confined"], settings["side_by_side"]
        self.children: dict[int, Child] = {}  # by the number of the request that started it
        self.queue: deque[dict[str, Any]] = deque()
        self.frames = Frames(LARGEST)
        self.selector = selectors.DefaultSelector()
        self.selector.register(channel, selectors.EVENT_READ)

    def serve(self) -> None:
        """Work until the other side hangs up."""
        try:
            while True:
                now = time.monotonic()
                until = min((child.deadline for child in self.children.values()), default=float("inf"))
                ready = self.selector.select(None if until == float("inf") else max(until - now, 0))
                for key, _ in ready:
                    if key.fileobj is self.channel:
                        data = self.channel.recv(CHUNK)
                        if not data:
                            return
                        for message in self.frames.add(data):
                            self.receive(message)
                    else:
                        self.hear(key.data)
                self.end_late()
                while self.queue and len(self.children) < self.side_by_side:
                    self.start(self.queue.popleft())
        finally:
            for child in self.children.values():
                self.kill(child)

    def receive(self, message: dict[str, Any]) -> None:
        child = self.children.get(message.get("session", -1))
        if "function" in message:
            self.queue.append(message)
        elif message["do"] == "close":
            self.queue = deque(m for m in self.queue if m["id"] != message["session"])
            if child is not None:
                self.kill(child)
                self.finish(child)
        elif child is None:
            self.reply(message["id"], failure="ended", detail="the session has ended")
        else:
            child.request, child.started, child.waiting = message["id"], time.monotonic(), False
            try:
                write_all(child.channel.fileno(), packed(message["arguments"]))
            except OSError:
                self.kill(child)  # its end is noticed at once

    def reply(self, request: int, **outcome: Any) -> None:
        self.channel.sendall(packed({"id": request, **outcome}))

    # -- children --------------------------------------------------------------------------------------------------

    def start(self, message: dict[str, Any]) -> None:
        ours, theirs = socket.socketpair()
        limits, token = Limits(**message["limits"]), secrets.token_hex(16)
        folder = os.path.join(self.folder, str(message["id"])) if limits.files_mb else ""
        pid = os.fork()
        if pid == 0:
            handle = theirs.detach()
            self._become(handle, message, limits, token, folder)
        theirs.close()
        child = Child(pid, ours, limits, token, folder, message["session"], message["id"], time.monotonic())
        self.children[message["id"]] = child
        self.selector.register(ours, selectors.EVENT_READ, child)

    def _become(self, handle: int, message: dict[str, Any], limits: Limits, token: str, folder: str) -> None:
        """What a forked process does; it never returns."""
        try:
            os.dup2(handle, 3)
            os.closerange(4, 1024)
            if folder:
                os.mkdir(folder, 0o700)
                os.chdir(folder)
            _die_with_parent()
            if self.confined:
                confine_call(limits, folder)
            else:
                os.setsid()  # so that what it starts can be ended with it
            work(3, message["function"], message["arguments"], token, session=message["session"])
        except BaseException:
            os._exit(70)
        os._exit(0)

    def hear(self, child: Child) -> None:
        """Read what a child has written, or notice that it has ended."""
        try:
            data = child.channel.recv(CHUNK)
            answers = child.frames.add(data) if data else []
        except (OSError, ValueError):
            data, answers = b"", []
        for answer in answers:
            if not isinstance(answer, dict) or answer.pop("token", "") != child.token or child.waiting:
                data = b""
                break
            request, child.waiting = child.request, True
            if child.session:
                self.reply(request, **answer)
            else:
                self.kill(child)
                self.reply(request, **answer, cpu_s=self.finish(child)[1])
                return
        if not data:
            waiting = child.waiting
            if os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                time.sleep(0.002)  # a process closes its channel a little before it is gone
            self.kill(child)  # also what an unconfined one has started and left behind
            status, cpu_s = self.finish(child)
            if not waiting:
                failure, detail = _end(status, child)
                self.reply(child.request, failure=failure, detail=detail, cpu_s=cpu_s)

    def end_late(self) -> None:
        now = time.monotonic()
        for child in [c for c in self.children.values() if c.deadline <= now]:
            self.kill(child)
            _, cpu_s = self.finish(child)
            detail = f"it took more than {child.limits.wall_s:g} s"
            self.reply(child.request, failure="timeout", detail=detail, cpu_s=cpu_s)

    def kill(self, child: Child) -> None:
        with suppress(ProcessLookupError):
            os.kill(child.pid, signal.SIGKILL)
        if not self.confined:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(child.pid, signal.SIGKILL)

    def finish(self, child: Child) -> tuple[int, float]:
        """Wait for a child that is ending; its exit status, and the processor time that it took."""
        self.selector.unregister(child.channel)
        child.channel.close()
        _, status, used = os.wait4(child.pid, 0)
        self.children = {number: other for number, other in self.children.items() if other is not child}
        if child.folder:
            shutil.rmtree(child.folder, ignore_errors=True)
        return status, used.ru_utime + used.ru_stime


def _end(status: int, child: Child) -> tuple[str, str]:
    """Why a process ended without an answer: the kind of failure, and a sentence."""
    if not os.WIFSIGNALED(status):
        return "crash", f"it ended with exit code {os.waitstatus_to_exitcode(status)} and without an answer"
    number = os.WTERMSIG(status)
    if number == signal.SIGSYS:
        return "violation", "it made a system call that is forbidden here"
    if number == signal.SIGXFSZ:
        return "violation", "it wrote more to a file than is allowed"
    if number == signal.SIGXCPU:
        return "timeout", f"it took more than {child.limits.cpu_s:g} s of processor time"
    return "crash", f"it was ended by {signal.Signals(number).name}"


def _die_with_parent() -> None:
    """If the server is killed, nobody is left to end a process that waits for ever."""
    if platform.system() == "Linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)


def work(handle: int, function: str, arguments: list[Any], token: str, *, session: bool) -> None:
    """Answer a call; for a session, make its handler and then answer the requests to it."""
    handler = resolve(function)
    answer: dict[str, Any]
    answer, result = attempt(handler, arguments, keep=session)
    write_all(handle, packed({"token": token, **answer}))
    frames = Frames(LARGEST)
    while session and "failure" not in answer:
        data = os.read(handle, CHUNK)
        if not data:
            return
        for request in frames.add(data):
            answer, _ = attempt(result, request)
            write_all(handle, packed({"token": token, **answer}))


def attempt(handler: Callable[..., Any], arguments: list[Any], keep: bool = False) -> tuple[dict[str, Any], Any]:
    try:
        result = handler(*arguments)
        answer = {"value": None if keep else result}
        packed(answer)  # what JSON cannot hold is an error of the function
    except AnswerIsCode as refusal:
        return {"failure": "violation", "detail": str(refusal)}, None
    except MemoryError:
        return {"failure": "memory", "detail": "it needed more memory than is allowed"}, None
    except BaseException as error:  # SystemExit too: it ends only the call
        return {"failure": "error", "detail": _said(error)}, None
    return answer, result


def _said(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"[:300]
    except BaseException:  # an exception whose text cannot be made
        return type(error).__name__


def resolve(function: str) -> Callable[..., Any]:
    module, _, name = function.partition(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return found


def main() -> None:
    """Load the modules, confine this process, and serve."""
    channel = socket.socket(fileno=int(sys.argv[1]))
    frames, settings = Frames(LARGEST), None
    while settings is None:
        data = channel.recv(CHUNK)
        if not data:
            return
        settings = next(iter(frames.add(data)), None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C in the terminal is for the process that called
    problems = []
    try:
        for name in settings["preload"]:
            importlib.import_module(name)
        for function, arguments in settings["prepare"]:
            resolve(function)(*arguments)
    except Exception as error:
        problems.append(_said(error))
    with suppress(OSError):
        with open("/proc/self/oom_score_adj", "w") as file:  # where memory runs out, end this rather than the training
            file.write("1000")
    try:
        if settings["confined"]:
            confine_server(settings["folder"], settings["readable"])
    except OSError as error:
        problems.append(str(error))
    channel.sendall(packed({"id": 0, "value": problems}))
    if problems:
        return
    gc.collect()
    gc.freeze()  # a collection in a child would copy all the pages that it shares with the server
    Server(channel, settings).serve()


if __name__ == "__main__":
    main()
