"""Game engines in processes of their own, and the pool that lends them."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from podium.core.errors import PodiumError

__all__ = ["GameEngine", "Pool", "Process"]

PLAYER = Path(__file__).with_name("player.py")
GRACE_S = 2.0  # seconds for a process to end by itself


class GameEngine(Protocol):
    """Plays one game at a time."""

    @property
    def alive(self) -> bool: ...

    def ask(self, do: str, **request: Any) -> dict[str, Any]:
        """The answer to a request. An engine that fails to answer raises an error and is dead from then on."""
        ...

    def stop(self) -> None:
        """Ask it to end."""
        ...

    def kill(self) -> None:
        """End it now, whatever it is doing; a pending request raises an error."""
        ...


class Process:
    """An engine in a process of its own, which a Ctrl-C in the terminal does not reach."""

    def __init__(self, kind: str, folder: str, limit_s: float, environment: Mapping[str, str]) -> None:
        self.kind, self.limit_s = kind, limit_s
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(PLAYER), kind],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            # With randomised hashes, each process would make a different game of the same seed.
            env={**os.environ, **environment, "TMPDIR": folder, "PYTHONHASHSEED": "0"},
            start_new_session=True,
        )
        self.pid = self._process.pid
        self._unread, self._asking = b"", threading.RLock()

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, do: str, **request: Any) -> dict[str, Any]:
        with self._asking:
            return self._answer(do, request)

    def _answer(self, do: str, request: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"do": do, **request}).encode() + b"\n")
            self._process.stdin.flush()
            reply: dict[str, Any] = json.loads(self._line())
        except (OSError, ValueError) as error:
            if isinstance(error, BrokenPipeError):  # it is ending, but may not have exited yet
                with suppress(subprocess.TimeoutExpired):
                    self._process.wait(GRACE_S)
            code = self._process.poll()
            self.kill()
            how = f"with exit code {code}" if code is not None else f"({error})"
            raise PodiumError(f"the {self.kind} process {self.pid} has died {how}") from error
        if "error" in reply:
            self.kill()  # its state is unknown
            raise PodiumError(f"the {self.kind} process {self.pid} failed: {reply['error']}")
        return reply

    def _line(self) -> bytes:
        assert self._process.stdout is not None
        out, until = self._process.stdout.fileno(), time.monotonic() + self.limit_s
        while b"\n" not in self._unread:
            ready, _, _ = select.select([out], [], [], max(until - time.monotonic(), 0))
            if not ready:
                raise OSError(f"no answer within {self.limit_s:g} s")
            more = os.read(out, 1 << 16)
            if not more:
                with suppress(subprocess.TimeoutExpired):
                    self._process.wait(GRACE_S)
                raise OSError("it closed its output")
            self._unread += more
        line, _, self._unread = self._unread.partition(b"\n")
        return line

    def stop(self) -> None:
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()

    def kill(self) -> None:
        if self.alive:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)  # with its child processes
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(GRACE_S)
        self.stop()
        if self._process.stdout is not None and self._asking.acquire(timeout=GRACE_S):  # no thread is reading from it
            self._process.stdout.close()
            self._asking.release()


class Pool:
    """Lends engines, at most `size` at once. They end when the pool is closed or garbage-collected, or Python exits."""

    def __init__(self, start: Callable[[str], GameEngine], size: int, limit_s: float) -> None:
        self.start, self.size, self.limit_s = start, size, limit_s
        self._engines: dict[GameEngine, bool] = {}  # whether each is lent
        self._starting, self._round = 0, 0
        self._change = threading.Condition()
        self._folder, self._end = "", _nothing

    def lend(self) -> GameEngine:
        """A free engine, a new one if there may be more, or else the next one that is given back."""
        with self._change:
            if not self._change.wait_for(self._room, self.limit_s):
                raise PodiumError(f"all {self.size} engines are in use: set world.engines to more than {self.size}")
            for engine in [e for e, lent in self._engines.items() if not lent]:
                with suppress(PodiumError):  # it may have died while it was idle
                    engine.ask("ping")
                    self._engines[engine] = True
                    return engine
                del self._engines[engine]
            self._starting += 1
            folder, begun = self._open(), self._round
        try:
            engine = self.start(folder)
        finally:
            with self._change:
                self._starting -= 1
                self._change.notify()
        with self._change:
            if begun == self._round:
                self._engines[engine] = True
                return engine
        engine.kill()
        raise PodiumError("the world was closed while an engine started")

    def give_back(self, engine: GameEngine) -> None:
        with self._change:
            if engine in self._engines:
                self._engines[engine] = False
                if not engine.alive:
                    del self._engines[engine]
            self._change.notify()

    def close(self) -> None:
        """End all engines, including lent ones, and remove their files; the next request starts new ones."""
        with self._change:
            end, self._end, self._folder = self._end, _nothing, ""
            self._round += 1
            end()
            self._engines.clear()
            self._change.notify_all()

    def _room(self) -> bool:
        return sum(self._engines.values()) + self._starting < self.size

    def _open(self) -> str:
        if not self._folder:
            self._folder = tempfile.mkdtemp(prefix="podium-")
            self._end = weakref.finalize(self, _end, self._engines, self._folder)
        return self._folder


def _nothing() -> None:
    """Nothing has been started yet."""


def _end(engines: Mapping[GameEngine, bool], folder: str) -> None:
    for engine, lent in engines.items():
        if lent:
            engine.kill()  # it may be in the middle of a request
        else:
            engine.stop()
    until = time.monotonic() + GRACE_S
    while time.monotonic() < until and any(engine.alive for engine in engines):
        time.sleep(0.02)
    for engine in engines:
        engine.kill()
    shutil.rmtree(folder, ignore_errors=True)
