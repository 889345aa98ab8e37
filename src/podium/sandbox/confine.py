"""How a process is confined: seccomp, Landlock and resource limits; and which of them this system has."""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from collections.abc import Sequence

from podium.sandbox import landlock, seccomp
from podium.sandbox.limits import Limits, apply_limits

__all__ = ["confine_call", "confine_server", "enforced", "unconfinable"]

# What Python and its libraries read besides the module path.
SYSTEM = (
    *("/usr/lib", "/usr/lib64", "/usr/local/lib", "/lib", "/lib64", "/usr/share/zoneinfo"),
    *("/etc/localtime", "/etc/ld.so.cache", "/dev/null", "/dev/urandom"),
)


def unconfinable() -> str:
    """Why untrusted code cannot be confined on this system; empty: it can."""
    return seccomp.available()


def enforced() -> dict[str, str]:
    """What is enforced on this system, by what; empty where it is not."""
    filtered, ruled = not seccomp.available(), not landlock.available()
    limited = platform.system() == "Linux"
    return {
        "wall clock": "the server kills the process",
        "processor time": "RLIMIT_CPU",
        "memory": "RLIMIT_DATA" if limited else "",
        "file size": "RLIMIT_FSIZE",
        "no new processes or programs": "seccomp" if filtered else "",
        "no network": "seccomp" if filtered else "",
        "no signals to other processes": "seccomp" if filtered else "",
        "no writing outside a folder of its own": "Landlock"
        if ruled
        else "seccomp: no writing at all"
        if filtered
        else "",
        "no reading outside Python's own files": "Landlock" if ruled else "",
    }


def confine_server(folder: str, readable: Sequence[str]) -> None:
    """Confine the server, before any untrusted text reaches it: no privileges, no files but those it needs."""
    _drop_capabilities()
    if not landlock.available():
        modules = [path for path in sys.path if path and os.path.exists(path)]
        landlock.restrict([*SYSTEM, sys.prefix, sys.base_prefix, *modules, *readable], [folder])


def confine_call(limits: Limits, folder: str) -> None:
    """Confine a process of the server to one call, with a folder of its own if `folder` is not empty."""
    writes = bool(folder) and not landlock.available()
    if writes:
        landlock.restrict(["/"], [folder])  # what the server may not read stays unreadable
    apply_limits(limits)
    seccomp.install(writes=writes)


def _drop_capabilities() -> None:
    """Root keeps its name, not its powers: it could raise its limits again."""
    if platform.system() != "Linux":
        return
    libc = ctypes.CDLL(None, use_errno=True)
    version_3, this_process = 0x20080522, 0
    header, nothing = (ctypes.c_uint32 * 2)(version_3, this_process), (ctypes.c_uint32 * 6)()
    if libc.capset(header, nothing):
        number = ctypes.get_errno()
        raise OSError(number, f"capset: {os.strerror(number)}")
