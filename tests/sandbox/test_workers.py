"""Processes that answer call after call: few of them while they answer, more while they hang."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from podium.sandbox import CallOutcome, Limits, Sandbox, Workers, unconfinable, workers
from tests.sandbox.test_sandbox import HERE, _children

pytestmark = pytest.mark.skipif(bool(unconfinable()), reason=unconfinable())


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    made = Sandbox((HERE,), limits=Limits(wall_s=30))
    yield made
    made.close()


def test_many_callers_share_few_processes(sandbox: Sandbox) -> None:
    adding = Workers(sandbox, f"{HERE}:add", patience_s=5)
    with ThreadPoolExecutor(64) as pool:
        outcomes = list(pool.map(adding.call, range(300), range(300)))
    assert [outcome.value for outcome in outcomes] == [2 * i for i in range(300)]
    assert len(_children(sandbox)) <= workers.CORES


def test_calls_that_hang_do_not_hold_up_the_others() -> None:
    sandbox = Sandbox((HERE,), limits=Limits(wall_s=4, cpu_s=60))
    sleeping = Workers(sandbox, f"{HERE}:sleep")
    sandbox.start()
    with ThreadPoolExecutor(64) as pool:
        began = time.monotonic()
        hanging = [pool.submit(sleeping.call, 3600) for _ in range(40)]
        quick = [pool.submit(sleeping.call, 0) for _ in range(20)]
        assert [future.result().value for future in quick] == [0] * 20
        assert {future.result().failure for future in hanging} == {"timeout"}
        # One after another they would take 80 s on two cores.
        assert time.monotonic() - began < 20
    until = time.monotonic() + 10
    while len(_children(sandbox)) > workers.CORES and time.monotonic() < until:
        time.sleep(0.05)
    assert len(_children(sandbox)) <= workers.CORES
    sandbox.close()


def test_an_error_keeps_the_process_and_a_crash_replaces_it(sandbox: Sandbox) -> None:
    running = Workers(sandbox, f"{HERE}:execute")
    assert running.call("raise ValueError").failure == "error"
    before = _children(sandbox)
    assert running.call("result = 1").value == 1
    assert _children(sandbox) == before
    assert running.call("import os; os._exit(1)").failure == "crash"
    assert running.call("result = 2").value == 2
    assert _children(sandbox) != before


def test_a_process_is_replaced_after_a_number_of_calls(sandbox: Sandbox) -> None:
    counting = Workers(sandbox, f"{HERE}:execute", calls=3)
    program = "import builtins; result = builtins.count = getattr(builtins, 'count', 0) + 1"
    assert [counting.call(program).value for _ in range(7)] == [1, 2, 3, 1, 2, 3, 1]


def test_what_is_prepared_is_there_from_the_next_call_on(sandbox: Sandbox) -> None:
    looking = Workers(sandbox, f"{HERE}:what_was_prepared")
    assert looking.call().value == []
    looking.prepare(f"{HERE}:prepare", 7)
    assert looking.call().value == [7]


def test_calls_survive_a_server_that_dies_and_a_sandbox_that_is_closed(sandbox: Sandbox) -> None:
    adding = Workers(sandbox, f"{HERE}:add")
    assert adding.call(1, 1).value == 2
    os.kill(sandbox.start()._process.pid, signal.SIGKILL)
    assert adding.call(1, 2).value == 3
    adding.close()
    assert adding.call(1, 3).value == 4


def test_a_call_that_cannot_be_made_leaves_room_for_others(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    adding = Workers(sandbox, f"{HERE}:add", patience_s=60)

    def broken(*_: object, **__: object) -> tuple[None, CallOutcome]:
        raise OSError("no more processes")

    with monkeypatch.context() as patch:
        patch.setattr(sandbox, "open", broken)
        for _ in range(2 * workers.CORES):
            with pytest.raises(OSError, match="no more processes"):
                adding.call(1, 1)
    done: list[int] = []
    thread = threading.Thread(target=lambda: done.append(adding.call(1, 1).value))
    thread.start()
    thread.join(20)
    assert done == [2]
