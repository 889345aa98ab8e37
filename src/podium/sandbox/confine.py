"""Confining a process by seccomp, Landlock and resource limits, and which of them this system has."""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import podium
from podium.sandbox import landlock, seccomp
from podium.sandbox.limits import Limits, apply_limits, mapped_bytes, memory_file

__all__ = ["HANDLES", "Confinement", "close_handles", "confine_server", "enforced", "unconfinable"]

# Files that Python and its libraries read, besides those on the module path.
SYSTEM = (
    *("/usr/lib", "/usr/lib64", "/usr/local/lib", "/lib", "/lib64", "/usr/share/zoneinfo"),
    *("/etc/localtime", "/etc/ld.so.cache", "/dev/null", "/dev/urandom"),
)
HANDLES = 1024  # that the server may have open at once


def unconfinable() -> str:
    """Why untrusted code cannot be confined on this system; empty: it can."""
    return seccomp.seccomp_missing()


def enforced() -> dict[str, str]:
    """The mechanism behind each promise on this system; empty where a promise is not enforced."""
    has_seccomp, has_landlock = not seccomp.seccomp_missing(), not landlock.landlock_missing()
    linux = platform.system() == "Linux"
    no_writing = "Landlock" if has_landlock else "seccomp: no writing at all" if has_seccomp else ""
    return {
        "wall clock": "the server kills the process",
        "processor time": "the server kills the process" if linux else "",
        "memory": "RLIMIT_AS" if linux else "",
        "size of files": "RLIMIT_FSIZE, and the server for their sum" if linux else "",
        "no new processes or programs": "seccomp" if has_seccomp else "",
        "no network": "seccomp" if has_seccomp else "",
        "no signals to other processes": "seccomp" if has_seccomp else "",
        "no writing outside a folder of its own": no_writing,
        "no reading outside Python's own files": "Landlock" if has_landlock else "",
    }


@dataclass(frozen=True)
class Confinement:
    """What the server has prepared once, so that confining each of its processes takes little time."""

    readable: tuple[str, ...]
    reading: int | None  # the handle of Landlock's rules for a process without a folder; None: there is no Landlock
    memory: int  # a handle from which the server's memory can be read

    def confine(self, limits: Limits, folder: str) -> None:
        """Confine this process, for good, with a folder of its own if `folder` is not empty, and close all its handles
        but the first four."""
        if self.reading is not None:
            landlock.enter(landlock.ruleset(self.readable, folder) if folder else self.reading)
        mapped = mapped_bytes(self.memory)
        close_handles()
        apply_limits(limits, mapped)
        seccomp.install(writes=bool(folder) and self.reading is not None)


def close_handles() -> None:
    """Close all handles of this process but the first four."""
    os.closerange(4, HANDLES)


def confine_server(folder: str, packages: Iterable[str], readable: Sequence[str]) -> Confinement:
    """Confine the server, before any untrusted text reaches it, and prepare the confinement of its processes.

    The server keeps no privileges, and can read only the files of Python, of the packages that it has loaded, and those
    in `readable`. If a trial shows that its processes are not confined after all, this raises an OSError.
    """
    paths = (*SYSTEM, sys.prefix, sys.base_prefix, *_module_folders(packages), *readable)
    memory = memory_file()
    _drop_capabilities()
    reading = None
    if not landlock.landlock_missing():
        reading = landlock.ruleset(paths)
        server_rules = landlock.ruleset(paths, folder, removable=os.path.dirname(folder))
        landlock.enter(server_rules)
        os.close(server_rules)
    confinement = Confinement(paths, reading, memory)
    _verify(confinement)
    return confinement


def _module_folders(packages: Iterable[str]) -> list[str]:
    """Where modules may still be imported from: the installed packages, Podium, and these packages. The other folders
    on the module path may hold a person's private files."""
    installed = [path for path in sys.path if path.rstrip("/").endswith(("site-packages", "dist-packages"))]
    files = [podium.__file__, *(getattr(sys.modules[name.partition(".")[0]], "__file__", None) for name in packages)]
    loaded = [os.path.dirname(file) if file.endswith("__init__.py") else file for file in files if file]
    return [*installed, *loaded]


def _drop_capabilities() -> None:
    """Give up the privileges of root, which could raise its limits again."""
    libc = ctypes.CDLL(None, use_errno=True)
    version_3, this_process = 0x20080522, 0
    header, nothing = (ctypes.c_uint32 * 2)(version_3, this_process), (ctypes.c_uint32 * 6)()
    if libc.capset(header, nothing):
        number = ctypes.get_errno()
        raise OSError(number, f"capset: {os.strerror(number)}")


def _verify(confinement: Confinement) -> None:
    """Check that the kernel kills a confined process which makes a socket."""
    pid = os.fork()
    if pid == 0:
        reached = 1
        with suppress(BaseException):
            confinement.confine(Limits(), "")
            reached = 2
            ctypes.CDLL(None).socket(2, 1, 0)
            reached = 3
        os._exit(reached)
    _, status = os.waitpid(pid, 0)
    if not os.WIFSIGNALED(status) or os.WTERMSIG(status) != signal.SIGSYS:
        code = os.waitstatus_to_exitcode(status)
        reason = "a process could not be confined" if code == 1 else f"a forbidden system call went through ({code})"
        raise OSError(0, f"the sandbox does not hold on this system: {reason}")
