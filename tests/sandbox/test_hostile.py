"""Hostile answers (`hostile.jsonl`) against everything that reads what a model writes with someone else's code.

Each is given to the scorers of reasoning-gym that evaluate answers, to math-verify, and, where it is a program, to a
fresh process that runs it as it stands. None may reach anything outside, harm this process, or keep it waiting.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from podium.sandbox import CallOutcome, Limits, Sandbox, unconfinable
from podium.sandbox.graders import gym_workers, math_workers, pickled
from tests.sandbox.test_sandbox import HERE

pytestmark = pytest.mark.skipif(bool(unconfinable()), reason=unconfinable())

ANSWERS = [json.loads(line) for line in Path(__file__).with_name("hostile.jsonl").read_text().splitlines()]
# Those that are programs, in whole or as an expression.
PROGRAMS = {"program", "code", "attributes", "forging", "files", "network", "processes", "signals", "imports"}
BY_EVAL = ("n_queens", "spiral_matrix", "binary_matrix", "string_insertion")  # scorers that call eval
BY_SYMPY = ("countdown", "puzzle24", "simple_integration", "polynomial_multiplication")  # that call sympy's parser
GOLD = "\\frac{123}{7}"
SECRET = "the-secret-of-the-test"
LIMITS = Limits(wall_s=8.0, cpu_s=0.1, memory_mb=256)
SIDE_BY_SIDE = 8
SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP, signal.SIGALRM, signal.SIGIO)


class Trap:
    """A folder with a secret, a server on this machine, handlers of signals; and what has reached them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.secret, self.outside = folder, folder / "secret", folder / "escaped"
        self.secret.write_text(SECRET)
        self.before = self.secret.stat()
        self.server = socket.create_server(("127.0.0.1", 0))
        self.datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.datagrams.bind(self.server.getsockname())
        self.server.setblocking(False)
        self.datagrams.setblocking(False)
        self.received: list[int] = []
        self.handlers = {number: signal.signal(number, lambda n, _: self.received.append(n)) for number in SIGNALS}
        self.here = {name for place in (".", "/tmp") for name in os.listdir(place) if "escaped" in name}
        os.environ["PODIUM_TEST_SECRET"] = SECRET

    def text(self, row: dict[str, Any]) -> str:
        """A hostile answer that names what it is after."""
        text = str(row["answer"]) * row.get("times", 1)
        for name, value in (
            *(("secret", self.secret), ("outside", self.outside), ("folder", self.folder)),
            *(("port", self.server.getsockname()[1]), ("pid", os.getpid())),
        ):
            text = text.replace(f"{{{name}}}", str(value))
        return text

    def check(self) -> None:
        """Nothing has been touched."""
        assert os.listdir(self.folder) == ["secret"]
        after = self.secret.stat()
        assert self.secret.read_text() == SECRET
        assert (after.st_mode, after.st_mtime, after.st_nlink) == (
            self.before.st_mode,
            self.before.st_mtime,
            self.before.st_nlink,
        )
        for channel in (self.server.accept, lambda: self.datagrams.recv(100)):
            with pytest.raises(BlockingIOError):
                channel()
        assert self.received == []
        assert {name for place in (".", "/tmp") for name in os.listdir(place) if "escaped" in name} == self.here

    def close(self) -> None:
        self.server.close()
        self.datagrams.close()
        for number, handler in self.handlers.items():
            signal.signal(number, handler)
        del os.environ["PODIUM_TEST_SECRET"]


@pytest.fixture
def trap(tmp_path: Path) -> Iterator[Trap]:
    made = Trap(tmp_path)
    yield made
    made.close()


def _of_session(server: int) -> list[str]:
    """The processes of a server's session: all that it has started."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if int(stat.read_text().rpartition(")")[2].split()[3]) == server:
                found.append(stat.parent.name)
    return found


def _attack(sandbox: Sandbox, trap: Trap, judge: Any, rows: list[dict[str, Any]]) -> list[CallOutcome]:
    """The outcomes of all answers, side by side. Nothing may escape, nothing be left, nothing take too long."""
    server = sandbox.start()._process.pid

    def timed(row: dict[str, Any]) -> tuple[CallOutcome, float]:
        began = time.monotonic()
        return judge(row), time.monotonic() - began

    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        judged = list(pool.map(timed, rows))
    assert sandbox.start()._process.pid == server, "the server died"
    sandbox.close()
    assert _of_session(server) == []
    trap.check()
    stalled = [row["tries"] for row, (_, seconds) in zip(rows, judged, strict=True) if seconds > 3 * LIMITS.wall_s]
    assert not stalled
    outcomes = [outcome for outcome, _ in judged]
    assert not [row["tries"] for row, outcome in zip(rows, outcomes, strict=True) if SECRET in str(outcome)]
    assert not [row["tries"] for row, outcome in zip(rows, outcomes, strict=True) if outcome.failure == "ended"]
    return outcomes


def test_the_corpus_is_large_and_every_answer_stands_once() -> None:
    assert len({(row["answer"], row.get("times")) for row in ANSWERS}) == len(ANSWERS) >= 150
    assert len({row["kind"] for row in ANSWERS}) >= 12


def test_hostile_answers_to_reasoning_gym_earn_nothing(trap: Trap) -> None:
    """Programs go to a scorer that calls eval and to one that calls sympy's parser, by turns; the others to one of
    them."""
    gym = pytest.importorskip("reasoning_gym", reason="needs the extra `gym`")
    workers = gym_workers(LIMITS)
    known = {}  # what a scorer needs besides the answer
    for task in (*BY_EVAL, *BY_SYMPY):
        known[task] = pickled((task, {}, 10)), pickled(gym.create_dataset(task, seed=0, size=10)[0])
        workers.prepare("podium.sandbox.graders:prepare_gym", known[task][0])
    answers = [row for row in ANSWERS if row["kind"] != "program"]
    rows = [
        {**row, "task": tasks[i // 2 % 4]}
        for i, row in enumerate(answers)
        for j, tasks in enumerate((BY_EVAL, BY_SYMPY))
        if row["kind"] in PROGRAMS or j == i % 2
    ]

    def judge(row: dict[str, Any]) -> CallOutcome:
        settings, entry = known[row["task"]]
        return workers.call(settings, trap.text(row), entry)

    outcomes = _attack(workers.sandbox, trap, judge, rows)
    forged = [(r["task"], r["tries"]) for r, o in zip(rows, outcomes, strict=True) if (o.value or 0) >= 1]
    assert not forged
    assert sum(outcome.failure == "violation" for outcome in outcomes) > 100  # they were evaluated, and refused


def test_hostile_answers_to_math_verify_are_not_right(trap: Trap) -> None:
    pytest.importorskip("math_verify", reason="needs the extra `math`")
    workers = math_workers(LIMITS)
    rows = [row for row in ANSWERS if row["kind"] != "program"]
    outcomes = _attack(workers.sandbox, trap, lambda row: workers.call(GOLD, trap.text(row)[:300]), rows)
    assert not [row["tries"] for row, outcome in zip(rows, outcomes, strict=True) if outcome.value]


def test_hostile_programs_do_no_harm(trap: Trap) -> None:
    sandbox = Sandbox((HERE,), limits=LIMITS)
    rows = [row for row in ANSWERS if row["kind"] in PROGRAMS]
    outcomes = _attack(sandbox, trap, lambda row: sandbox.call(f"{HERE}:execute", trap.text(row)), rows)
    assert {"violation", "timeout", "crash", "error"} <= {outcome.failure for outcome in outcomes}
