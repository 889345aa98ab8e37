"""Kill a run with SIGKILL at random moments, resume it each time, and compare it with the uninterrupted one.

    python benchmarks/kill_resume.py [--kills 20] [--method grpo]

Prints `bit-equal: N of N` for weights, optimiser state and metrics; exit code 1 otherwise.
"""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from safetensors.torch import load_file

from podium.store.run import RunDirectory


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "podium.cli", "train", *arguments, "--quiet"]


def fresh(method: str, out: Path) -> list[str]:
    settings = ["--world", "sums", "--level", "1", "--iterations", "16", "--out", str(out)]
    for change in ("tasks=4", "eval_tasks=8", "eval_every=4", "checkpoint_every=1", "optimizer.lr=3e-4"):
        settings += ["--set", change]
    return command(method, *settings)


def state(path: Path) -> dict[str, Any]:
    """All that must be equal: the last checkpoint's tensors, and the metrics without what a clock measured."""
    directory = RunDirectory(path)
    last = directory.checkpoints()[-1]
    tensors = {f.name: load_file(f) for f in sorted(last.rglob("*.safetensors"))}
    lines = [{k: v for k, v in line.items() if k != "seconds"} for line in directory.metrics()]
    return {"tensors": tensors, "metrics": lines, "state": (last / "state.json").read_text()}


def equal(a: dict[str, Any], b: dict[str, Any]) -> bool:
    if a["metrics"] != b["metrics"] or a["state"] != b["state"] or a["tensors"].keys() != b["tensors"].keys():
        return False
    return all(
        x.keys() == b["tensors"][f].keys() and all((x[k] == b["tensors"][f][k]).all() for k in x)
        for f, x in a["tensors"].items()
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--method", default="grpo")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    rng = random.Random(arguments.seed)
    place = Path(tempfile.mkdtemp(prefix="podium-kill-"))
    begun = time.monotonic()
    subprocess.run(fresh(arguments.method, place / "whole"), check=True)
    whole, seconds = state(place / "whole"), time.monotonic() - begun
    print(f"uninterrupted: {seconds:.1f} s")
    kills, runs, good, while_saving = 0, 0, 0, 0
    while kills < arguments.kills:
        out = place / f"run-{runs}"
        start = fresh(arguments.method, out)
        while True:
            process = subprocess.Popen(start, stderr=subprocess.DEVNULL)
            try:
                # Anywhere from before the first line to just before the end.
                process.wait(timeout=rng.uniform(0.3, 1.0) * seconds if kills < arguments.kills else None)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                process.wait()
                kills += 1
                while_saving += any((out / "checkpoints").glob(".*.part"))
                started = (out / "config.yaml").exists()
                start = command("--resume", str(out)) if started else fresh(arguments.method, out)
                continue
            if process.returncode != 0:
                print(f"run {runs}: exit code {process.returncode}")
                return 1
            break
        good += equal(whole, state(out))
        runs += 1
        shutil.rmtree(out)
    print(f"killed {kills} times ({while_saving} of them while a checkpoint was being written)")
    print(f"bit-equal: {good} of {runs} runs")
    shutil.rmtree(place)
    return 0 if good == runs else 1


if __name__ == "__main__":
    raise SystemExit(main())
