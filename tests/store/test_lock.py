"""One process writes to a run; when it dies, by whatever death, the run is free again. Its children never hold it."""

from __future__ import annotations

import errno
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from podium.core.errors import PodiumError
from podium.store.run_directory import RunDirectory

HOLD = """
import sys, time
from podium.store.run_directory import RunDirectory
held = RunDirectory(sys.argv[1])
held.open()
print("open", flush=True)
time.sleep(60)
"""


def test_a_second_process_waits_and_a_killed_one_leaves_no_lock(tmp_path: Path) -> None:
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "open\n"
    try:
        with pytest.raises(PodiumError, match="Another process is writing to"):
            RunDirectory(tmp_path).open()
    finally:
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    directory = RunDirectory(tmp_path)
    directory.open()
    directory.close()


def forked() -> tuple[int, Callable[[], Any]]:
    child = os.fork()
    if not child:
        time.sleep(60)
        os._exit(0)
    return child, lambda: os.waitpid(child, 0)


def forked_by_multiprocessing() -> tuple[int, Callable[[], Any]]:
    child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,))
    child.start()
    assert child.pid is not None
    return child.pid, child.join


def executed() -> tuple[int, Callable[[], Any]]:
    child = subprocess.Popen(["sleep", "60"], close_fds=False)
    return child.pid, child.wait


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # it has threads and forks, as a world may
@pytest.mark.parametrize("start", [forked, forked_by_multiprocessing, executed])
def test_a_child_that_outlives_the_run_does_not_hold_its_lock(
    tmp_path: Path, start: Callable[[], tuple[int, Callable[[], Any]]]
) -> None:
    directory = RunDirectory(tmp_path)
    directory.open()
    child, wait = start()
    try:
        time.sleep(0.2)  # a child that has just been forked is about to close its copy
        with pytest.raises(PodiumError, match="Another process is writing to"):  # the parent's own lock is unharmed
            RunDirectory(tmp_path).open()
        directory.close()
        again = RunDirectory(tmp_path)
        again.open()
        again.close()
    finally:
        os.kill(child, signal.SIGKILL)
        wait()


def test_two_threads_of_one_process_do_not_write_to_the_same_run(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    directory.open()
    refused: list[str] = []

    def second() -> None:
        try:
            RunDirectory(tmp_path).open()
        except PodiumError as error:
            refused.append(str(error))

    thread = threading.Thread(target=second)
    thread.start()
    thread.join()
    directory.close()
    assert len(refused) == 1


def test_a_file_system_without_locks_is_named_and_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def lockless(*_: object) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr("fcntl.flock", lockless)
    directory = RunDirectory(tmp_path)
    with pytest.warns(UserWarning, match=r"has no locks \(Function not implemented\)"):
        directory.open()
    directory.close()
