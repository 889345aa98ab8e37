"""Functions that tests call in a sandbox: good ones, and ones that do what a sandbox is there to stop."""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

prepared: list[Any] = []


def prepare(value: Any) -> None:
    prepared.append(value)


def prepare_badly() -> None:
    raise ValueError("no such thing")


def what_was_prepared() -> list[Any]:
    return prepared


def add(a: int, b: int) -> int:
    return a + b


def echo(value: Any) -> Any:
    return value


def fail(message: str) -> None:
    raise ValueError(message)


def leave() -> None:
    sys.exit(3)


def not_json() -> object:
    return object()


def deep() -> list[Any]:
    value: list[Any] = []
    for _ in range(100_000):
        value = [value]
    return value


def large(megabytes: int) -> str:
    return "x" * (megabytes << 20)


def sleep(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def spin(seconds: float) -> float:
    """Compute for so many seconds of processor time."""
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass
    return seconds


def niceness(after_s: float) -> int:
    spin(after_s)
    return os.getpriority(os.PRIO_PROCESS, 0)


def ignore_signals_and_spin() -> None:
    for number in range(1, signal.NSIG):
        with suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_IGN)
    spin(1e9)


def allocate(megabytes: int) -> int:
    return len(bytearray(megabytes << 20))


def share_memory(megabytes: int) -> int:
    """Memory that is not counted as a process's data."""
    shared = mmap.mmap(-1, megabytes << 20)
    for place in range(0, len(shared), 4096):
        shared[place] = 1
    return len(shared)


def environment() -> dict[str, str]:
    return dict(os.environ)


def read(path: str) -> str:
    with open(path, errors="replace") as file:
        return file.read(100)


def write(path: str, text: str = "x", mode: str = "w") -> int:
    with open(path, mode) as file:
        return file.write(text)


def write_and_list(name: str, text: str) -> tuple[str, list[str]]:
    write(name, text)
    return read(name), sorted(os.listdir("."))


def fill(megabytes: int) -> int:
    """Write many files of a megabyte."""
    for number in range(megabytes):
        write(f"file-{number}", "x" * (1 << 20))
    time.sleep(1)
    return megabytes


def nest(depth: int) -> int:
    for _ in range(depth):
        os.mkdir("d")
        os.chdir("d")
    return depth


def handles() -> list[int]:
    """The handles that are open."""
    opened = []
    for handle in range(5000):
        try:
            os.fstat(handle)
        except OSError:
            continue
        opened.append(handle)
    return opened


def signal_by_handle(pid: int) -> str:
    """Try to have a signal sent to a process when something can be read."""
    import fcntl

    outcomes = []
    for attempt in (
        lambda: fcntl.fcntl(3, fcntl.F_SETOWN, pid),
        lambda: fcntl.fcntl(3, 10, int(signal.SIGTERM)),  # F_SETSIG
        lambda: fcntl.ioctl(3, 0x8901, pid.to_bytes(4, "little")),  # FIOSETOWN
        lambda: fcntl.ioctl(3, 0x8902, pid.to_bytes(4, "little")),  # SIOCSPGRP
    ):
        try:
            attempt()
            outcomes.append("done")
        except OSError as error:
            outcomes.append(str(error.errno))
    return " ".join(outcomes)


def system_call(number: int, *arguments: int) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    result = libc.syscall(number, *map(ctypes.c_long, arguments))
    return -ctypes.get_errno() if result < 0 else result


def execute(text: str) -> Any:
    """Run a program that a model has written, as it stands."""
    names: dict[str, Any] = {}
    exec(text, names)
    return names.get("result")


def write_to_handles(text: str) -> str:
    for handle in range(64):
        with suppress(OSError):
            os.write(handle, text.encode())
    return "honest"


def close_handles_and_spin() -> None:
    os.closerange(0, 64)
    spin(1e9)


# -- sessions ---------------------------------------------------------------------------------------------------------


def counter(start: int) -> Callable[[str], int]:
    """A handler that counts, and does other things by name."""
    count = start

    def handle(request: str, *arguments: Any) -> Any:
        nonlocal count
        count += 1
        if request == "count":
            return count
        return globals()[request](*arguments)

    return handle


def deaf() -> Callable[..., Any]:
    """A handler that answers once, forges the answer's beginning, and then never reads again."""

    def handle(*_: Any) -> str:
        frame = sys._getframe()
        while frame is not None and "token" not in frame.f_locals:
            frame = frame.f_back  # type: ignore[assignment]
        answer = frame.f_locals["token"] + b'{"value": "forged"}'
        os.write(3, len(answer).to_bytes(4, "little") + answer)
        spin(1e9)
        return "never"

    return handle
