"""Calls and sessions: what comes back, whatever the function does."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from podium.core.errors import PodiumError
from podium.sandbox import Limits, Sandbox, SandboxedCall, client, unconfinable

pytestmark = pytest.mark.skipif(bool(unconfinable()), reason=unconfinable())

HERE = "tests.sandbox.functions"
QUICK = Limits(wall_s=0.4, cpu_s=0.3)


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    made = Sandbox((HERE,), limits=Limits(wall_s=20))
    yield made
    made.close()


def call(sandbox: Sandbox, function: str, *arguments: Any, limits: Limits | None = None) -> Any:
    """The value that a function returns."""
    outcome = sandbox.call(f"{HERE}:{function}", *arguments, limits=limits)
    assert not outcome.failure, outcome
    return outcome.value


def failure(sandbox: Sandbox, function: str, *arguments: Any, limits: Limits | None = None) -> str:
    outcome = sandbox.call(f"{HERE}:{function}", *arguments, limits=limits)
    assert outcome.value is None
    return outcome.failure


def test_a_call_returns_what_the_function_returns(sandbox: Sandbox) -> None:
    assert call(sandbox, "add", 2, 3) == 5
    for value in (None, [1, {"a": 0.5}], "ä\ud800\x00", float("inf"), 10**400):
        assert call(sandbox, "echo", value) == value


def test_processor_time_is_measured(sandbox: Sandbox) -> None:
    outcome = sandbox.call(f"{HERE}:spin", 0.1)
    assert 0.1 <= outcome.cpu_s < 0.3


@pytest.mark.parametrize(
    ("function", "arguments", "kind"),
    [
        ("fail", ("why",), "error"),
        ("leave", (), "error"),
        ("no_such_function", (), "error"),
        ("not_json", (), "error"),
        ("deep", (), "error"),
        ("large", (2,), "crash"),
        ("sleep", (60,), "timeout"),
        ("spin", (60,), "timeout"),
        ("ignore_signals_and_spin", (), "timeout"),
        ("allocate", (400,), "memory"),
        ("share_memory", (400,), "error"),
        ("close_handles_and_spin", (), "crash"),
        ("write_to_handles", ("forged",), "crash"),
    ],
)
def test_whatever_goes_wrong_is_an_outcome(
    sandbox: Sandbox, function: str, arguments: tuple[Any, ...], kind: str
) -> None:
    began = time.monotonic()
    limits = QUICK if kind == "timeout" else Limits(wall_s=20)
    assert failure(sandbox, function, *arguments, limits=limits) == kind
    assert time.monotonic() - began < 10
    assert call(sandbox, "add", 1, 1) == 2


def test_an_error_says_what_was_raised_in_characters_that_can_be_printed(sandbox: Sandbox) -> None:
    outcome = sandbox.call(f"{HERE}:fail", "red \x1b[31m and \ud800" + "x" * 1000)
    assert outcome.detail.startswith(r"ValueError: red \x1b[31m and \ud800")
    assert outcome.detail[300:] == " …"


def test_processor_time_is_limited_apart_from_the_clock(sandbox: Sandbox) -> None:
    outcome = sandbox.call(f"{HERE}:spin", 60, limits=Limits(wall_s=30, cpu_s=0.2))
    assert (outcome.failure, outcome.detail) == ("timeout", "it took more than 0.2 s of processor time")
    assert call(sandbox, "sleep", 0.5, limits=Limits(wall_s=30, cpu_s=0.2)) == 0.5


def test_a_long_call_gets_a_lower_priority(sandbox: Sandbox) -> None:
    assert sandbox.call(f"{HERE}:niceness", 0.0).value == os.getpriority(os.PRIO_PROCESS, 0)
    assert sandbox.call(f"{HERE}:niceness", 0.4).value == 10


def test_arguments_that_are_too_large_or_no_json_end_only_the_call(sandbox: Sandbox) -> None:
    assert "larger than 64 MB" in sandbox.call(f"{HERE}:echo", "x" * (65 << 20)).detail
    with pytest.raises(TypeError):
        sandbox.call(f"{HERE}:echo", object())
    assert call(sandbox, "add", 1, 1) == 2


def test_failures_are_counted() -> None:
    sandbox = Sandbox((HERE,), limits=QUICK)
    for _ in range(2):
        failure(sandbox, "fail", "")
    failure(sandbox, "sleep", 5)
    sandbox.close()
    assert sandbox.failures == {"error": 2, "timeout": 1}


def test_no_more_than_max_processes_run_at_once() -> None:
    sandbox = Sandbox((HERE,), max_processes=8, limits=Limits(wall_s=20))
    sandbox.start()
    began = time.monotonic()
    threads = [threading.Thread(target=call, args=(sandbox, "sleep", 0.5)) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sandbox.close()
    assert 1.0 <= time.monotonic() - began < 6


# -- preparing --------------------------------------------------------------------------------------------------------


def test_what_is_prepared_is_there_for_every_call_and_after_a_restart() -> None:
    sandbox = Sandbox((HERE,), prepare=(SandboxedCall(f"{HERE}:prepare", (1,)),))
    assert call(sandbox, "what_was_prepared") == [1]
    for _ in range(2):
        sandbox.prepare(f"{HERE}:prepare", 2)
    assert call(sandbox, "what_was_prepared") == [1, 2]
    sandbox.close()
    assert call(sandbox, "what_was_prepared") == [1, 2]
    with pytest.raises(PodiumError, match="could not be prepared: ValueError: no such thing"):
        sandbox.prepare(f"{HERE}:prepare_badly")
    assert call(sandbox, "what_was_prepared") == [1, 2]
    sandbox.close()


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"preload": ("no_such_module",)}, "No module named 'no_such_module'"),
        ({"prepare": (SandboxedCall(f"{HERE}:prepare_badly", ()),)}, "no such thing"),
    ],
)
def test_a_sandbox_that_cannot_start_says_why(settings: dict[str, Any], reason: str) -> None:
    with pytest.raises(PodiumError, match=reason):
        Sandbox(**settings).call(f"{HERE}:add", 1, 1)


def test_a_system_that_cannot_confine_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "unconfinable", lambda: "Plan 9 has no seccomp")
    with pytest.raises(PodiumError, match="Plan 9 has no seccomp"):
        Sandbox((HERE,)).call(f"{HERE}:add", 1, 1)


# -- sessions ---------------------------------------------------------------------------------------------------------


def test_a_session_answers_one_request_after_another(sandbox: Sandbox) -> None:
    session, outcome = sandbox.open(f"{HERE}:counter", 10)
    assert session is not None
    assert not outcome.failure
    assert [session.ask("count").value for _ in range(3)] == [11, 12, 13]
    assert session.ask("fail", "why").failure == "error"
    assert session.ask("count").value == 15  # an error does not end it
    session.close()
    assert session.ask("count").failure == "ended"


def test_a_session_that_hangs_has_ended(sandbox: Sandbox) -> None:
    session, _ = sandbox.open(f"{HERE}:counter", 0, limits=QUICK)
    assert session is not None
    assert session.ask("sleep", 60).failure == "timeout"
    assert session.ask("count").failure == "ended"


def test_time_is_limited_for_each_request_not_for_the_session(sandbox: Sandbox) -> None:
    session, _ = sandbox.open(f"{HERE}:counter", 0, limits=Limits(wall_s=10, cpu_s=0.3))
    assert session is not None
    outcomes = [session.ask("spin", 0.2) for _ in range(3)]
    assert [outcome.value for outcome in outcomes] == [0.2] * 3
    assert all(0.2 <= outcome.cpu_s < 0.3 for outcome in outcomes)
    session.close()


def test_a_session_that_does_not_read_holds_up_nobody(sandbox: Sandbox) -> None:
    session, _ = sandbox.open(f"{HERE}:deaf", limits=Limits(wall_s=0.5))
    assert session is not None
    assert session.ask().value == "forged"  # code that runs freely decides what its own process says
    threading.Thread(target=session.ask, args=("x" * (4 << 20),)).start()
    began = time.monotonic()
    assert call(sandbox, "add", 1, 1) == 2
    assert time.monotonic() - began < 3


def test_a_session_that_works_on_after_its_answer_is_ended(sandbox: Sandbox) -> None:
    session, _ = sandbox.open(f"{HERE}:deaf")
    assert session is not None
    assert session.ask().value == "forged"
    until = time.monotonic() + 20
    while time.monotonic() < until:
        time.sleep(0.2)
        if not _children(sandbox):
            return
    pytest.fail("it still runs")


def test_a_session_whose_handler_cannot_be_made_says_why(sandbox: Sandbox) -> None:
    session, outcome = sandbox.open(f"{HERE}:fail", "why")
    assert session is None
    assert outcome.detail == "ValueError: why"


# -- ends -------------------------------------------------------------------------------------------------------------


def _server(sandbox: Sandbox) -> int:
    return sandbox.start()._process.pid


def _children(sandbox: Sandbox) -> list[int]:
    pid = _server(sandbox)
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _gone(pid: int, within_s: float = 10) -> bool:
    until = time.monotonic() + within_s
    while time.monotonic() < until:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.02)
    return False


def test_nothing_is_left_of_a_closed_sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    handles = len(os.listdir("/proc/self/fd"))
    sandbox = Sandbox((HERE,))
    session, _ = sandbox.open(f"{HERE}:counter", 0)
    call(sandbox, "add", 1, 1, limits=Limits(files_mb=1))
    pids = [_server(sandbox), *_children(sandbox)]
    assert os.listdir(tmp_path)
    sandbox.close()
    assert all(map(_gone, pids))
    assert session is not None
    assert session.ask("count").failure == "ended"
    assert os.listdir(tmp_path) == []
    assert len(os.listdir("/proc/self/fd")) == handles


def test_nothing_is_left_of_a_sandbox_that_is_garbage_collected() -> None:
    sandbox = Sandbox((HERE,))
    pid = _server(sandbox)
    del sandbox
    gc.collect()
    assert _gone(pid)


def test_a_call_under_which_the_server_dies_is_made_again() -> None:
    sandbox = Sandbox((HERE,), limits=Limits(wall_s=20))
    pid = _server(sandbox)
    threading.Timer(0.3, os.kill, (pid, signal.SIGKILL)).start()
    assert call(sandbox, "sleep", 1) == 1
    assert _server(sandbox) != pid
    sandbox.close()


def test_processes_die_with_their_server() -> None:
    sandbox = Sandbox((HERE,), limits=Limits(wall_s=60))
    session, _ = sandbox.open(f"{HERE}:counter", 0)
    assert session is not None
    children = _children(sandbox)
    assert children
    os.kill(_server(sandbox), signal.SIGKILL)
    assert all(map(_gone, children))
    assert session.ask("count").failure == "ended"
    sandbox.close()


def test_closing_ends_the_calls_that_run() -> None:
    sandbox = Sandbox((HERE,), limits=Limits(wall_s=60))
    sandbox.start()
    outcomes: list[str] = []
    threads = [threading.Thread(target=lambda: outcomes.append(failure(sandbox, "sleep", 60))) for _ in range(4)]
    for thread in threads:
        thread.start()
    time.sleep(0.3)
    sandbox.close()
    for thread in threads:
        thread.join(10)
    assert outcomes == ["ended"] * 4


def test_a_forked_process_leaves_its_parents_sandbox_alone(sandbox: Sandbox) -> None:
    call(sandbox, "add", 1, 1)
    session, _ = sandbox.open(f"{HERE}:counter", 0)
    assert session is not None
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            ended = session.ask("count").failure
            sandbox.close()
            gc.collect()
            code = 0 if ended == "ended" else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert session.ask("count").value == 1
    session.close()


SCRIPT = """
import os, signal, sys, threading
from podium.sandbox import Limits, Sandbox
sandbox = Sandbox(limits=Limits(wall_s=60))
threading.Thread(target=sandbox.call, args=("time:sleep", 60), daemon=True).start()
session, _ = sandbox.open("podium.sandbox.child:resolve", "time:sleep")
print(sandbox.start()._process.pid, flush=True)
HOW
"""


@pytest.mark.parametrize("how", ["", "sys.exit(3)", "os.kill(os.getpid(), signal.SIGKILL)", "os._exit(1)"])
def test_nothing_is_left_of_a_process_that_ends(tmp_path: Path, how: str) -> None:
    command, environment = [sys.executable, "-c", SCRIPT.replace("HOW", how)], {**os.environ, "TMPDIR": str(tmp_path)}
    ended = subprocess.run(command, env=environment, capture_output=True, timeout=60)
    assert ended.stderr == b""
    assert _gone(int(ended.stdout))
    assert os.listdir(tmp_path) == []
