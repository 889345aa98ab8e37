"""The server of a sandbox: a process that has loaded its modules once, and forks one process for each call.

    python -m podium.sandbox.server PARENT

Each call finds the modules as they were loaded, whatever the calls before it have done. The server never looks at what
a call has computed: it passes bytes on. It speaks to the process PARENT through its standard input, and ends with it.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import secrets
import selectors
import signal
import socket
import sys
import time
from collections import deque
from contextlib import suppress
from typing import Any

from podium.core.printable import error_text
from podium.sandbox.child import CHUNK, resolve, work
from podium.sandbox.confine import HANDLES, Confinement, close_handles, confine_server
from podium.sandbox.folders import is_small, remove_folder
from podium.sandbox.frames import ANSWER, LARGEST_REQUEST, Frames, framed, packed
from podium.sandbox.limits import Limits
from podium.sandbox.process import LINUX, TOKEN, Child, exit_reason

__all__ = ["run_server"]

REAP_S = 0.002  # seconds between checks whether killed processes are gone
ALIVE_S = 5.0  # seconds between checks whether the parent is alive


class Server:
    """Starts a process for each call, passes messages on, and kills what exceeds its limits."""

    def __init__(self, channel: socket.socket, settings: dict[str, Any], confinement: Confinement | None) -> None:
        self.channel, self.confinement, self.parent = channel, confinement, os.getppid()
        self.folder, self.max_processes = settings["folder"], settings["max_processes"]
        self.children: dict[int, Child] = {}
        self.dying: list[Child] = []  # killed but not gone yet, which takes time that nobody should wait for
        self.queue: deque[dict[str, Any]] = deque()
        self.removing: list[int] = []  # processes that remove folders
        self.frames = Frames(LARGEST_REQUEST)
        self.selector = selectors.DefaultSelector()
        self.selector.register(channel, selectors.EVENT_READ)

    def serve(self) -> None:
        """Work until the other side hangs up or is gone."""
        try:
            while os.getppid() == self.parent:
                until = min((child.check_at for child in self.children.values()), default=float("inf"))
                longest = REAP_S if self.dying else ALIVE_S
                for key, events in self.selector.select(min(max(until - time.monotonic(), 0), longest)):
                    child = key.data
                    if child is None:
                        data = self.channel.recv(CHUNK)
                        if not data:
                            return
                        for message in self.frames.add(data):
                            self.receive(json.loads(message))
                    elif child.number in self.children:  # it may have been closed just now
                        if events & selectors.EVENT_WRITE:
                            self.send(child)
                        if events & selectors.EVENT_READ:
                            self.read(child)
                for child in list(self.children.values()):
                    failure, detail = child.overrun() if child.check_at <= time.monotonic() else ("", "")
                    if failure:
                        self.stop(child, failure, detail)
                self.dying = [child for child in self.dying if not self.reaped(child)]
                self.removing = [pid for pid in self.removing if not os.waitpid(pid, os.WNOHANG)[0]]
                while self.queue and len(self.children) + len(self.dying) < self.max_processes:
                    self.start(self.queue.popleft())
        finally:
            for child in list(self.children.values()):
                self.kill(child)
            for child in self.dying:
                os.waitpid(child.pid, 0)
            remove_folder(self.folder)

    def receive(self, message: dict[str, Any]) -> None:
        """Act on a message of the client."""
        child, kind = self.children.get(message.get("session", -1)), message["do"]
        if kind in ("call", "open"):
            self.queue.append(message)
        elif kind == "prepare":
            failed = _prepare([(message["function"], message["arguments"])])
            self.fail(message["id"], "error", failed) if failed else self.reply(message["id"], b"{}")
        elif kind == "close":
            self.queue = deque(m for m in self.queue if m["id"] != message["session"])
            if child is not None:
                self.kill(child)
        elif child is None or not child.waiting:
            self.fail(message["id"], "ended", "the session has ended" if child is None else "the session is busy")
        else:
            child.ask(message["id"], packed(message["arguments"]))
            self.send(child)

    def send(self, child: Child) -> None:
        """Send a request, or as much of it as the child accepts now, so that one that does not read blocks nobody."""
        try:
            child.unsent = child.unsent[child.channel.send(child.unsent) :]
        except BlockingIOError:
            pass
        except OSError:
            child.unsent = b""  # the child has ended, which `read` notices
        writes = selectors.EVENT_WRITE if child.unsent else 0
        self.selector.modify(child.channel, selectors.EVENT_READ | writes, child)

    def reply(self, request: int, answer: bytes, cpu_s: float = 0.0) -> None:
        self.channel.sendall(framed(ANSWER.pack(request, cpu_s) + answer))

    def fail(self, request: int, failure: str, detail: str, cpu_s: float = 0.0) -> None:
        self.reply(request, json.dumps({"failure": failure, "detail": detail}).encode(), cpu_s)

    # -- children --------------------------------------------------------------------------------------------------

    def start(self, message: dict[str, Any]) -> None:
        """Fork a process for a call or a session."""
        number, limits, token = message["id"], Limits(**message["limits"]), secrets.token_bytes(TOKEN)
        folder = os.path.join(self.folder, str(number)) if limits.files_mb else ""
        try:
            server_end, pid = self._forked(message, limits, token, folder)
        except OSError as error:
            self.fail(number, "crash", f"no process could be started: {error}")
            return
        server_end.setblocking(False)
        child = Child(number, pid, server_end, limits, token, folder, message["do"] == "open", number)
        self.children[number] = child
        self.selector.register(server_end, selectors.EVENT_READ, child)

    def _forked(self, message: dict[str, Any], limits: Limits, token: bytes, folder: str) -> tuple[socket.socket, int]:
        server_end, child_end = socket.socketpair()
        with child_end:
            try:
                pid = os.fork()
            except OSError:
                server_end.close()
                raise
            if pid == 0:
                self._run_child(child_end.detach(), message, limits, token, folder)
        return server_end, pid

    def _run_child(self, handle: int, message: dict[str, Any], limits: Limits, token: bytes, folder: str) -> None:
        """What a forked process does; it never returns."""
        try:
            self.queue.clear()  # the requests of others are not for its eyes
            self.children.clear()
            os.dup2(handle, 3)
            os.dup2(1, 2)  # the server's errors go to a file
            if folder:
                os.mkdir(folder, 0o700)
                os.chdir(folder)
                os.environ.update(HOME=folder, TMPDIR=folder)
            _die_with_parent(os.getppid())
            if self.confinement is not None:
                self.confinement.confine(limits, folder)
            else:
                os.setsid()  # so that what it starts can be ended with it
                close_handles()
            work(3, message["function"], message["arguments"], token, session=message["do"] == "open")
        except BaseException:
            os._exit(70)
        os._exit(0)

    def read(self, child: Child) -> None:
        """Read what a child has written, or notice that it has ended."""
        try:
            data = child.channel.recv(CHUNK)
            answers = child.frames.add(data)
        except BlockingIOError:
            return
        except (OSError, ValueError):
            data, answers = b"", []
        for answer in answers:
            if child.waiting or not answer.startswith(child.token):
                data = b""  # nobody asked, or it was not the function that answered
                break
            self.reply(child.request, answer[TOKEN:], child.answered())
            if not child.session:
                self.kill(child)
        if not data and child.number in self.children:
            self.kill(child)  # `reaped` reports why

    def stop(self, child: Child, failure: str, detail: str) -> None:
        """Kill a child that has exceeded a limit, and tell its caller why, if one is waiting."""
        if not child.waiting:
            self.fail(child.request, failure, detail, child.answered())
        self.kill(child)

    def kill(self, child: Child) -> None:
        """Kill a child; this does not change the status of one that is ending already."""
        self.selector.unregister(child.channel)
        child.channel.close()
        del self.children[child.number]
        with suppress(ProcessLookupError):
            os.kill(child.pid, signal.SIGKILL)
        if self.confinement is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(child.pid, signal.SIGKILL)
        self.dying.append(child)

    def reaped(self, child: Child) -> bool:
        """Whether a killed process is gone. If its caller still waits for an answer, it gets the reason."""
        pid, status, used = os.wait4(child.pid, os.WNOHANG)
        if not pid:
            return False
        if not child.waiting:
            cpu_s = max(used.ru_utime + used.ru_stime - child.cpu_before, 0.0)
            self.fail(child.request, *exit_reason(status), cpu_s)
        if child.folder:
            self.remove(child.folder)
        return True

    def remove(self, folder: str) -> None:
        """Remove a folder; one with many files in a process that does nothing else, so that nobody waits for that."""
        if is_small(folder):
            remove_folder(folder)
            return
        with suppress(OSError):  # without a process for it, it is removed in the end
            pid = os.fork()
            if pid == 0:
                with suppress(BaseException):
                    os.closerange(3, HANDLES)
                    remove_folder(folder)
                os._exit(0)
            self.removing.append(pid)


def _die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when its parent, the server, dies: nobody else would end it."""
    if LINUX:
        ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(70)


def _prepare(calls: list[tuple[str, list[Any]]]) -> str:
    """Make calls for the state that they leave in their modules; returns the error of the first that fails."""
    try:
        for function, arguments in calls:
            resolve(function)(*arguments)
    except Exception as error:
        return error_text(error)
    gc.collect()
    gc.freeze()  # a collection in a child would copy all the pages that it shares with the server
    return ""


def _handshake() -> tuple[socket.socket, dict[str, Any]] | None:
    """The channel to the parent, and the settings that arrive on it first; None if the parent has hung up."""
    channel = socket.socket(fileno=os.dup(0))
    os.dup2(1, 0)  # standard output leads nowhere, and from here on so does standard input
    frames, messages = Frames(LARGEST_REQUEST), list[bytes]()
    while not messages:
        data = channel.recv(CHUNK)
        if not data:
            return None
        messages = frames.add(data)
    return channel, json.loads(messages[0])


def run_server() -> None:
    """Load the modules, confine this process, and serve."""
    import resource

    parent, opened = int(sys.argv[1]), _handshake()
    if opened is None or os.getppid() != parent:
        return
    channel, settings = opened
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C in the terminal is for the process that called
    _, highest = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(HANDLES, highest), highest))  # so that all can be closed
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")  # where memory runs out, end this rather than the training
    problem, confinement = "", None
    try:
        for name in settings["preload"]:
            importlib.import_module(name)
        problem = _prepare(settings["prepare"])
        if settings["confined"] and not problem:
            confinement = confine_server(settings["folder"], settings["preload"], settings["readable"])
    except Exception as error:
        problem = error_text(error)
    server = Server(channel, settings, confinement)
    if problem:
        server.fail(0, "error", problem)
    else:
        server.reply(0, b"{}")
        server.serve()


if __name__ == "__main__":
    run_server()
