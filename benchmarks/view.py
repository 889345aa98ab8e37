"""What the live page costs: opening a folder of many runs, showing a new iteration, and the training beside it.

    python benchmarks/view.py [--runs 100] [--rounds 3] [--iterations 12]

A reader does what the page does: it asks for the list of runs once a second, and for the new lines of metrics when a
run has changed. Training is alternated with and without server and reader, in processes of their own; what counts are
CPU seconds, which other work on the machine disturbs less than the clock.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

POLL_S = 1.0  # as the page asks
PODIUM = (sys.executable, "-m", "podium.cli")
TICKS = os.sysconf("SC_CLK_TCK")


class Reader:
    """Asks the server for what the page asks."""

    def __init__(self, address: str) -> None:
        self.base, _, self.token = address.partition("/?token=")

    def get(self, path: str, **query: str) -> Any:
        asked = urllib.parse.urlencode({**query, "token": self.token})
        with urllib.request.urlopen(f"{self.base}/{path}?{asked}") as answer:
            data = answer.read()
        return json.loads(data) if path.startswith("api/") else data

    def open(self) -> list[Any]:
        """The first things that the page loads; the runs."""
        self.get("")
        for name in ("app.js", "charts.js", "page.css"):
            self.get(f"static/{name}")
        runs = self.get("api/runs")["runs"]
        self.get("api/metrics", run=runs[0]["name"])
        return list(runs)

    def follow(self, stop: threading.Event) -> None:
        """Poll until told to stop."""
        versions: dict[str, str] = {}
        while not stop.wait(POLL_S):
            for run in self.get("api/runs")["runs"]:
                if versions.get(run["name"]) != run["version"]:
                    versions[run["name"]] = run["version"]
                    self.get("api/metrics", run=run["name"])


@contextmanager
def served(folder: Path) -> Iterator[tuple[Reader, int, float]]:
    """A server of a folder: a reader, its process, and the seconds until it has printed its address."""
    begun = time.monotonic()
    command = [*PODIUM, "view", str(folder)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"})
    assert server.stdout is not None
    try:
        address = server.stdout.readline().split("runs: ")[-1].split("run: ")[-1].split(" ")[0].strip()
        yield Reader(address), server.pid, time.monotonic() - begun
    finally:
        server.terminate()
        server.wait()


def cpu_of(process: int) -> float:
    """The CPU seconds of a running process."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def settle(process: int) -> None:
    """Wait until the server has loaded what X-rays need, which it does once, after it has started."""
    seen = -1.0
    while cpu_of(process) - seen > 0.02:
        seen = cpu_of(process)
        time.sleep(5)
    print(f"server, CPU s to start and to load what X-rays need: {seen:.2f}")


def trained(out: Path, iterations: int) -> float:
    """Train; the CPU seconds that it took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    sizes = ["--iterations", str(iterations), "--set", "eval_every=0", "--set", "eval_tasks=8"]
    subprocess.run([*PODIUM, "train", "--out", str(out), "--quiet", *sizes], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def opening(run: Path, folder: Path, count: int) -> None:
    """How long a folder of runs takes to open, and a new iteration to be seen."""
    for number in range(count):
        shutil.copytree(run, folder / f"run-{number:03d}", ignore=shutil.ignore_patterns("checkpoints"))
    with served(folder) as (reader, _, start):
        times = []
        for _ in range(5):
            begun = time.monotonic()
            runs = reader.open()
            times.append(time.monotonic() - begun)
        print(
            f"{len(runs)} runs: server ready after {start:.2f} s; page's data {times[0]:.2f} s, then {min(times):.2f} s"
        )
        file = folder / "run-000" / "metrics.jsonl"
        *_, last = file.read_text().splitlines()
        line = {**json.loads(last), "iteration": json.loads(last)["iteration"] + 1}
        line.pop("check", None)
        with file.open("a") as metrics:
            metrics.write(json.dumps(line) + "\n")
        begun = time.monotonic()
        version = next(each for each in reader.get("api/runs")["runs"] if each["name"].endswith("run-000"))
        reader.get("api/metrics", run=version["name"], since=str(line["iteration"] - 1))
        took = time.monotonic() - begun
        print(f"a new iteration is read in {took:.3f} s, so it shows after at most {POLL_S + took:.2f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--iterations", type=int, default=12)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        alone, beside, server_s, clock = [], [], [], []
        for number in range(given.rounds):
            alone.append(trained(folder / "runs" / f"alone-{number}", given.iterations))
            with served(folder / "runs") as (reader, process, _):
                reader.open()
                settle(process)
                stop, before, begun = threading.Event(), cpu_of(process), time.monotonic()
                polling = threading.Thread(target=reader.follow, args=(stop,))
                polling.start()
                beside.append(trained(folder / "runs" / f"beside-{number}", given.iterations))
                clock.append(time.monotonic() - begun)
                server_s.append(cpu_of(process) - before)
                stop.set()
                polling.join()
        opening(folder / "runs" / "alone-0", folder / "many", given.runs)
    ratio = [b / a for a, b in zip(alone, beside, strict=True)]
    print(f"training, CPU s: alone {shown(alone)}, beside the page {shown(beside)}")
    print(f"ratio {statistics.median(ratio):.3f} (median), {min(ratio):.3f} to {max(ratio):.3f}")
    print(f"server, CPU s while it trained: {shown(server_s)}: {100 * sum(server_s) / sum(beside):.2f} % of training's")
    print(f"and {100 * sum(server_s) / sum(clock):.2f} % of a core")


def shown(seconds: list[float]) -> str:
    return " ".join(f"{value:.2f}" for value in seconds)


if __name__ == "__main__":
    main()
