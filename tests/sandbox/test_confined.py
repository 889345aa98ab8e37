"""What a confined process cannot do, and what it still can."""

from __future__ import annotations

import errno
import os
import platform
import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from podium.sandbox import Limits, Sandbox, enforced, landlock, seccomp, unconfinable
from podium.sandbox.folders import remove_folder
from podium.sandbox.seccomp import ALLOWED, CONDITIONAL, FORBIDDEN, IN_FOLDER, MACHINES
from tests.sandbox.test_sandbox import HERE, call

confinable = pytest.mark.skipif(bool(unconfinable()), reason=unconfinable())
needs_landlock = pytest.mark.skipif(bool(landlock.landlock_missing()), reason=landlock.landlock_missing())
TABLES = {**ALLOWED, **IN_FOLDER, **FORBIDDEN, **CONDITIONAL}


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    os.environ["PODIUM_TEST_SECRET"] = "in the environment"
    made = Sandbox((HERE,), limits=Limits(wall_s=20))
    yield made
    made.close()
    del os.environ["PODIUM_TEST_SECRET"]


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    file = tmp_path / "secret"
    file.write_text("hidden")
    return file


@confinable
@needs_landlock
def test_files_outside_cannot_be_read(sandbox: Sandbox, secret: Path) -> None:
    for path in (secret, f"/proc/{os.getpid()}/environ", "/proc/self/maps", "/etc/passwd", Path.home(), Path.cwd()):
        outcome = sandbox.call(f"{HERE}:read", str(path))
        assert (outcome.failure, outcome.detail.partition(":")[0]) == ("error", "PermissionError"), path
    assert call(sandbox, "read", os.__file__)  # Python's own can be


@confinable
@needs_landlock
def test_files_are_readable_that_the_sandbox_was_given(tmp_path: Path, secret: Path) -> None:
    sandbox = Sandbox((HERE,), readable=(str(tmp_path),))
    assert call(sandbox, "read", str(secret)) == "hidden"
    assert sandbox.call(f"{HERE}:write", str(secret)).failure == "error"
    sandbox.close()


@confinable
@pytest.mark.parametrize("mode", ["w", "a", "x", "r+"])
def test_no_file_can_be_written(sandbox: Sandbox, secret: Path, mode: str) -> None:
    for path in (secret, secret.with_name("new"), Path(__file__)):
        assert sandbox.call(f"{HERE}:write", str(path), "x", mode).failure == "error"
    assert secret.read_text() == "hidden"
    assert os.listdir(secret.parent) == ["secret"]


@confinable
@needs_landlock
def test_a_process_writes_into_its_own_folder_only(sandbox: Sandbox, secret: Path) -> None:
    limits = Limits(wall_s=20, files_mb=1)
    assert call(sandbox, "write_and_list", "a.txt", "text", limits=limits) == ["text", ["a.txt"]]
    assert call(sandbox, "write_and_list", "b.txt", "text", limits=limits) == ["text", ["b.txt"]]  # another folder
    for path in (str(secret), "../file", f"{secret.parent}/new"):
        assert sandbox.call(f"{HERE}:write", path, limits=limits).failure == "error"
    assert secret.read_text() == "hidden"


@confinable
@needs_landlock
def test_a_process_cannot_read_the_folder_of_another(sandbox: Sandbox) -> None:
    session, _ = sandbox.open(f"{HERE}:counter", 0, limits=Limits(wall_s=20, files_mb=1))
    assert session is not None
    folder = session.ask("environment").value["HOME"]
    assert session.ask("write", f"{folder}/mine").value == 1
    for files_mb in (0, 1):
        limits = Limits(wall_s=20, files_mb=files_mb)
        assert sandbox.call(f"{HERE}:read", f"{folder}/mine", limits=limits).failure == "error"
    session.close()


@confinable
@needs_landlock
def test_files_are_limited_each_and_together_and_removed_however_deep(sandbox: Sandbox) -> None:
    limits = Limits(wall_s=20, files_mb=2)
    assert sandbox.call(f"{HERE}:write", "a", "x" * (3 << 20), limits=limits).failure in ("violation", "error")
    assert sandbox.call(f"{HERE}:fill", 8, limits=limits).failure == "violation"
    folder = Path(call(sandbox, "environment", limits=limits)["HOME"]).parent
    assert call(sandbox, "nest", 100, limits=limits) == 100
    until = time.monotonic() + 10
    while time.monotonic() < until and [entry.name for entry in folder.iterdir()] != ["stderr"]:
        call(sandbox, "add", 1, 1)
    assert [entry.name for entry in folder.iterdir()] == ["stderr"]


def test_a_folder_is_removed_however_deep_and_whatever_its_files_may_do(tmp_path: Path) -> None:
    folder, here = tmp_path / "folder", os.getcwd()
    folder.mkdir()
    (folder / "outside").symlink_to(tmp_path)
    (folder / "closed" / "inner").mkdir(parents=True)
    (folder / "closed").chmod(0)
    os.chdir(folder)
    try:
        for _ in range(50):  # a path that is longer than the system takes
            os.mkdir("d" * 200)
            os.chdir("d" * 200)
    finally:
        os.chdir(here)
    (tmp_path / "kept").write_text("kept")
    remove_folder(str(folder))
    assert [entry.name for entry in tmp_path.iterdir()] == ["kept"]


@confinable
@pytest.mark.parametrize(
    "call_",
    [
        *("socket", "connect", "bind", "clone", "clone3", "fork", "vfork", "execve", "kill", "tgkill", "ptrace"),
        *("prctl", "setrlimit", "unshare", "setns", "bpf", "io_uring_setup", "process_vm_readv", "pidfd_send_signal"),
    ],
)
def test_forbidden_system_calls_end_the_process(sandbox: Sandbox, call_: str) -> None:
    number = FORBIDDEN[call_][MACHINES[platform.machine()][0]]
    if number is not None:
        assert sandbox.call(f"{HERE}:system_call", number, 0, 0, 0, 0).failure == "violation"


@confinable
def test_unknown_system_calls_fail(sandbox: Sandbox) -> None:
    column = MACHINES[platform.machine()][0]
    for number in ((319, 279)[column], (133, 33)[column], (8888, 8888)[column]):  # memfd_create, mknod, none
        assert call(sandbox, "system_call", number, 0, 0, 0) == -errno.EPERM


@confinable
def test_limits_can_be_read_and_not_changed(sandbox: Sandbox) -> None:
    number = CONDITIONAL["prlimit64"][MACHINES[platform.machine()][0]]
    assert call(sandbox, "system_call", number, 0, 7, 0, 0) == 0
    assert sandbox.call(f"{HERE}:system_call", number, 0, 7, 1 << 32, 0).failure == "violation"


@confinable
def test_no_signal_can_be_sent_by_way_of_a_handle(sandbox: Sandbox) -> None:
    assert call(sandbox, "signal_by_handle", os.getpid()) == " ".join([str(errno.EPERM)] * 4)


@confinable
def test_there_is_no_network_even_to_this_machine(sandbox: Sandbox) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        program = f"import socket; socket.create_connection(('127.0.0.1', {server.getsockname()[1]}))"
        assert sandbox.call(f"{HERE}:execute", program).failure == "violation"
        with pytest.raises(BlockingIOError):
            server.accept()


@confinable
def test_a_process_has_no_handles_but_its_own(sandbox: Sandbox) -> None:
    assert call(sandbox, "handles") == [0, 1, 2, 3]
    wasted = [os.open("/dev/null", os.O_RDONLY) for _ in range(900)]  # so that new handles have large numbers
    try:
        crowded = Sandbox((HERE,))
        assert call(crowded, "handles") == [0, 1, 2, 3]
        crowded.close()
    finally:
        for handle in wasted:
            os.close(handle)


@confinable
def test_the_environment_holds_no_secrets(sandbox: Sandbox) -> None:
    assert "in the environment" not in str(call(sandbox, "environment"))


@confinable
def test_a_process_that_is_not_confined_is_as_free_as_this_one(secret: Path) -> None:
    sandbox = Sandbox((HERE,), confined=False)
    assert call(sandbox, "read", str(secret)) == "hidden"
    outcome = sandbox.call(f"{HERE}:sleep", 60, limits=Limits(wall_s=0.3))
    assert outcome.failure == "timeout"
    sandbox.close()


# -- tables -----------------------------------------------------------------------------------------------------------


def _header(path: str, pattern: str) -> dict[str, int]:
    file = Path(path)
    if not file.is_file():
        pytest.skip(f"there is no {path}")
    return {name: int(number) for name, number in re.findall(pattern, file.read_text())}


def test_numbers_of_system_calls_on_x86_64_are_those_of_the_kernel() -> None:
    header = _header("/usr/include/x86_64-linux-gnu/asm/unistd_64.h", r"#define __NR_(\w+) (\d+)\b")
    wrong = {name: numbers[0] for name, numbers in TABLES.items() if header.get(name) != numbers[0]}
    assert not wrong


def test_numbers_of_system_calls_on_64_bit_arm_are_those_of_the_kernel() -> None:
    header = _header("/usr/include/asm-generic/unistd.h", r"#define __NR(?:3264)?_(\w+)\s+(\d+)\b")
    other = {"newfstatat": "fstatat"}  # the header's name for it
    wrong = {n: numbers[1] for n, numbers in TABLES.items() if header.get(other.get(n, n)) != numbers[1]}
    assert not wrong


def test_no_system_call_is_in_two_tables() -> None:
    assert len(TABLES) == sum(map(len, (ALLOWED, IN_FOLDER, FORBIDDEN, CONDITIONAL)))


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("writes", [False, True])
def test_the_filter_decides_as_the_tables_say(machine: str, writes: bool) -> None:
    """The filter, interpreted here as the kernel would, on both machines."""
    column, audit = MACHINES[machine]

    def decide(number: int | None, *arguments: int, architecture: int = audit) -> int:
        assert number is not None
        return _interpret(seccomp.filter_program(machine, writes=writes), number, architecture, arguments)

    for name, numbers in TABLES.items():
        if numbers[column] is None or name in CONDITIONAL:
            continue
        wanted = seccomp.KILL if name in FORBIDDEN else seccomp.ALLOW if name in ALLOWED or writes else seccomp.DENY
        assert decide(numbers[column]) == wanted, name
    openat, prlimit64 = CONDITIONAL["openat"][column], CONDITIONAL["prlimit64"][column]
    assert decide(openat, 0, 0, os.O_RDONLY | os.O_CLOEXEC) == seccomp.ALLOW
    for flag in (os.O_WRONLY, os.O_RDWR, os.O_CREAT, os.O_TRUNC, os.O_RDONLY | os.O_APPEND):
        assert decide(openat, 0, 0, flag) == (seccomp.ALLOW if writes else seccomp.DENY)
    assert decide(prlimit64, 0, 0, 0) == seccomp.ALLOW
    assert decide(prlimit64, 0, 0, 1) == decide(prlimit64, 0, 0, 1 << 32) == seccomp.KILL
    for name, allowed, denied in (("ioctl", 0x5401, 0x8901), ("fcntl", 1, 8), ("fcntl", 1030, 10)):
        assert decide(CONDITIONAL[name][column], 0, allowed) == seccomp.ALLOW
        assert decide(CONDITIONAL[name][column], 0, denied) == seccomp.DENY
    assert decide(9999) == seccomp.DENY
    assert decide(0, architecture=0x40000003) == seccomp.KILL
    assert decide(seccomp.X32 + 1) == seccomp.KILL


def _interpret(program: list[seccomp.Instruction], number: int, architecture: int, arguments: tuple[int, ...]) -> int:
    words = {seccomp.NUMBER: number, seccomp.ARCHITECTURE: architecture}
    for place in range(6):
        argument = arguments[place] if place < len(arguments) else 0
        words[seccomp.ARGUMENTS + 8 * place] = argument & 0xFFFFFFFF
        words[seccomp.ARGUMENTS + 8 * place + 4] = argument >> 32
    held, place = 0, 0
    tests: dict[int, Any] = {
        seccomp.EQUAL: lambda operand: held == operand,
        seccomp.AT_LEAST: lambda operand: held >= operand,
        seccomp.ANY_BIT: lambda operand: held & operand != 0,
    }
    while True:
        code, if_true, if_false, operand = program[place]
        place += 1
        if code == seccomp.RETURN:
            return operand
        if code == seccomp.LOAD:
            held = words[operand]
        else:
            place += if_true if tests[code](operand) else if_false


def test_enforced_names_a_mechanism_for_everything_that_holds_here(monkeypatch: pytest.MonkeyPatch) -> None:
    assert set(enforced()) >= {"wall clock", "memory", "no network"}
    monkeypatch.setattr(seccomp, "seccomp_missing", lambda: "no")
    monkeypatch.setattr(landlock, "landlock_missing", lambda: "no")
    missing = {name for name, by in enforced().items() if not by}
    assert missing == {name for name in enforced() if name.startswith("no ")}
