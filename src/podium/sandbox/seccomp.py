"""A seccomp filter: the system calls that a sandboxed process may make.

Those in ALLOWED work. Those in FORBIDDEN, which only an attack needs (a new process, a program, a socket, a signal),
kill the process, so that the attempt is seen. All others fail with "operation not permitted".
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct

__all__ = ["filter_program", "install", "seccomp_missing"]

# The number of each system call on x86-64 and on 64-bit ARM; None: it does not exist there.
ALLOWED: dict[str, tuple[int | None, int | None]] = {
    "read": (0, 63),
    "write": (1, 64),
    "close": (3, 57),
    "stat": (4, None),
    "fstat": (5, 80),
    "lstat": (6, None),
    "poll": (7, None),
    "lseek": (8, 62),
    "mmap": (9, 222),
    "mprotect": (10, 226),
    "munmap": (11, 215),
    "brk": (12, 214),
    "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139),
    "pread64": (17, 67),
    "pwrite64": (18, 68),
    "readv": (19, 65),
    "writev": (20, 66),
    "access": (21, None),
    "select": (23, None),
    "sched_yield": (24, 124),
    "mremap": (25, 216),
    "madvise": (28, 233),
    "dup": (32, 23),
    "dup2": (33, None),
    "nanosleep": (35, 101),
    "alarm": (37, None),
    "setitimer": (38, 103),
    "getpid": (39, 172),
    "exit": (60, 93),
    "uname": (63, 160),
    "fsync": (74, 82),
    "ftruncate": (77, 46),
    "getcwd": (79, 17),
    "chdir": (80, 49),
    "readlink": (89, None),
    "gettimeofday": (96, 169),
    "getrusage": (98, 165),
    "sysinfo": (99, 179),
    "times": (100, 153),
    "getuid": (102, 174),
    "getgid": (104, 176),
    "geteuid": (107, 175),
    "getegid": (108, 177),
    "getppid": (110, 173),
    "sigaltstack": (131, 132),
    "gettid": (186, 178),
    "futex": (202, 98),
    "sched_getaffinity": (204, 123),
    "getdents64": (217, 61),
    "restart_syscall": (219, 128),
    "clock_gettime": (228, 113),
    "clock_getres": (229, 114),
    "clock_nanosleep": (230, 115),
    "exit_group": (231, 94),
    "newfstatat": (262, 79),
    "readlinkat": (267, 78),
    "faccessat": (269, 48),
    "pselect6": (270, 72),
    "ppoll": (271, 73),
    "dup3": (292, 24),
    "getpriority": (140, 141),
    "getrandom": (318, 278),
    "statx": (332, 291),
    "rseq": (334, 293),
    "faccessat2": (439, 439),
}
# Allowed only in a folder of its own, which Landlock confines it to.
IN_FOLDER: dict[str, tuple[int | None, int | None]] = {
    "rename": (82, None),
    "mkdir": (83, None),
    "rmdir": (84, None),
    "unlink": (87, None),
    "mkdirat": (258, 34),
    "unlinkat": (263, 35),
    "renameat": (264, 38),
    "renameat2": (316, 276),
}
FORBIDDEN: dict[str, tuple[int | None, int | None]] = {
    "socket": (41, 198),
    "connect": (42, 203),
    "accept": (43, 202),
    "bind": (49, 200),
    "listen": (50, 201),
    "clone": (56, 220),
    "fork": (57, None),
    "vfork": (58, None),
    "execve": (59, 221),
    "kill": (62, 129),
    "ptrace": (101, 117),
    "setuid": (105, 146),
    "setgid": (106, 144),
    "capset": (126, 91),
    "pivot_root": (155, 41),
    "prctl": (157, 167),
    "setrlimit": (160, 164),
    "chroot": (161, 51),
    "mount": (165, 40),
    "umount2": (166, 39),
    "reboot": (169, 142),
    "init_module": (175, 105),
    "tkill": (200, 130),
    "tgkill": (234, 131),
    "keyctl": (250, 219),
    "unshare": (272, 97),
    "rt_sigqueueinfo": (129, 138),
    "setns": (308, 268),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "bpf": (321, 280),
    "execveat": (322, 281),
    "io_uring_setup": (425, 425),
    "pidfd_send_signal": (424, 424),
    "clone3": (435, 435),
}
# Allowed with certain arguments only: see `filter_program`.
CONDITIONAL: dict[str, tuple[int, int]] = {
    "ioctl": (16, 29),
    "fcntl": (72, 25),
    "openat": (257, 56),
    "prlimit64": (302, 261),
}
IOCTL = (0x5401, 0x5450, 0x5451)  # is it a terminal; close on exec or not. Others can have signals sent
FCNTL = (0, 1, 2, 3, 4, 1030)  # duplicates and flags. Others can have signals sent to any process, or lock files
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}  # the column of the tables, and the audit number
LOAD, EQUAL, AT_LEAST, ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06  # BPF instructions
NUMBER, ARCHITECTURE, ARGUMENTS = 0, 4, 16  # offsets in what the filter sees
ALLOW, KILL = 0x7FFF0000, 0x80000000
DENY = 0x00050000 | errno.EPERM
X32 = 0x40000000  # system calls of another ABI, whose numbers mean other things

Instruction = tuple[int, int, int, int]  # code, where to go on if true and if false, operand


def seccomp_missing() -> str:
    """Why there is no seccomp here; empty: there is."""
    if platform.system() != "Linux":
        return f"{platform.system()} has no seccomp"
    if platform.machine() not in MACHINES or ctypes.sizeof(ctypes.c_void_p) != 8:
        return f"the numbers of system calls on {platform.machine()} are not known here"
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(22, 2, 0, 0, 0)  # PR_SET_SECCOMP with no filter: EFAULT where filters exist
    return "" if ctypes.get_errno() == errno.EFAULT else "this kernel has no seccomp filters"


def filter_program(machine: str, *, writes: bool) -> list[Instruction]:
    """The filter as BPF instructions. `writes`: files may be written, where Landlock lets them be."""
    column, audit = MACHINES[machine]
    program: list[Instruction] = [
        (LOAD, 0, 0, ARCHITECTURE),
        (EQUAL, 1, 0, audit),
        (RETURN, 0, 0, KILL),
        (LOAD, 0, 0, NUMBER),
        (AT_LEAST, 0, 1, X32),
        (RETURN, 0, 0, KILL),
    ]
    allowed = {**ALLOWED, **IN_FOLDER} if writes else ALLOWED
    for table, action in ((allowed, ALLOW), (FORBIDDEN, KILL)):
        for numbers in table.values():
            number = numbers[column]
            if number is not None:
                program += [(EQUAL, 0, 1, number), (RETURN, 0, 0, action)]
    flags = [] if writes else [(LOAD, 0, 0, ARGUMENTS + 16), (ANY_BIT, 0, 1, WRITING), (RETURN, 0, 0, DENY)]
    # Limits may be read, not set: the new ones (the third argument) must be a null pointer.
    set_nothing = [
        *((LOAD, 0, 0, ARGUMENTS + 16), (EQUAL, 1, 0, 0), (RETURN, 0, 0, KILL)),
        *((LOAD, 0, 0, ARGUMENTS + 20), (EQUAL, 1, 0, 0), (RETURN, 0, 0, KILL)),
    ]
    checks = {
        "ioctl": _one_of(IOCTL),
        "fcntl": _one_of(FCNTL),
        "openat": [*flags, (RETURN, 0, 0, ALLOW)],
        "prlimit64": [*set_nothing, (RETURN, 0, 0, ALLOW)],
    }
    for name, check in checks.items():
        program += [(EQUAL, 0, len(check), CONDITIONAL[name][column]), *check]
    return [*program, (RETURN, 0, 0, DENY)]


def _one_of(commands: tuple[int, ...]) -> list[Instruction]:
    """Allow a system call whose second argument is one of these."""
    tests = [step for command in commands for step in ((EQUAL, 0, 1, command), (RETURN, 0, 0, ALLOW))]
    return [(LOAD, 0, 0, ARGUMENTS + 8), *tests, (RETURN, 0, 0, DENY)]


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def install(*, writes: bool) -> None:
    """Filter the system calls of this process, for good."""
    instructions = filter_program(platform.machine(), writes=writes)
    code = b"".join(struct.pack("=HBBI", *instruction) for instruction in instructions)
    program = _Program(len(instructions), code)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, ctypes.byref(program), 0, 0):  # no new privileges; the filter
        number = ctypes.get_errno()
        raise OSError(number, f"seccomp: {os.strerror(number)}")
