"""One process writes to a run; when it dies, by whatever death, the run is free again."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

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
