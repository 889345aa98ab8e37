"""Kill runs with SIGKILL while they sample, train, write metrics and write checkpoints; resume; compare to the bit.

    python benchmarks/kill_resume.py [--kills 20] [--terminate] [--method grpo --method ppo …]

Prints where the kills fell and `bit-equal: N of N` for weights, optimiser state, memories and metrics; exit code 1
otherwise. With --terminate the signal is SIGTERM, the runs write no checkpoints of their own, and none may lose an
iteration; how long they took to end is printed, too. Children are forked from a process that has imported everything,
so that a restart costs no imports.
"""

from __future__ import annotations

import argparse
import functools
import multiprocessing
import os
import random
import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from ctypes import c_int
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"  # a forked child has none of its parent's threads

import numpy as np
from safetensors.numpy import load_file

from podium import methods, policy
from podium.sessions import train as session
from podium.store import run_directory as store
from podium.store.run_directory import RunDirectory
from podium.training import loop
from podium.training.config import Config
from podium.training.trainer import Trainer

STAGES = ("elsewhere", "sampling", "training", "records", "checkpoint")
SPAN_S = {"sampling": 0.3, "training": 0.1, "records": 0.005, "checkpoint": 0.03}  # how long one takes, about
STOPPED, LOST = 75, 76  # exit codes of a child that SIGTERM has stopped, with all its iterations or without
FORK = multiprocessing.get_context("fork")
stage = FORK.Value(c_int, 0, lock=False)


def watch(owner: Any, name: str, place: str) -> None:
    """Let `stage` say that the run is inside owner.name."""
    inner: Callable[..., Any] = getattr(owner, name)

    @functools.wraps(inner)
    def marked(*args: Any, **kwargs: Any) -> Any:
        stage.value = STAGES.index(place)
        try:
            return inner(*args, **kwargs)
        finally:
            stage.value = 0

    setattr(owner, name, marked)


def work(config: Config, out: Path) -> None:
    """A child: start the run, or go on with it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    watch(loop, "collect_round", "sampling")
    watch(Trainer, "step", "training")
    watch(RunDirectory, "write_rollouts", "records")
    watch(RunDirectory, "append_metrics", "records")
    watch(store, "atomic_directory", "checkpoint")
    begun = (out / "config.yaml").exists()
    result = session.resume(out, config=config) if begun else session.train(config, out=out)
    if not result.finished:
        raise SystemExit(LOST if result.lost else STOPPED)


def killed(
    config: Config, out: Path, target: str, times: int, delay_s: float, number: signal.Signals, took_s: list[float]
) -> str | None:
    """Run until `target` has been entered so many times and a moment more, and kill; None: it was done before."""
    stage.value = 0
    child = FORK.Process(target=work, args=(config, out))
    child.start()
    wanted, inside = STAGES.index(target), False
    while child.is_alive() and times > 0:
        entered = stage.value == wanted
        times -= entered and not inside
        inside = entered
        time.sleep(0.0002)
    time.sleep(delay_s)
    place = STAGES[stage.value]
    if not child.is_alive():
        if child.exitcode != 0:
            raise SystemExit(f"a run ended with exit code {child.exitcode}")
        return None
    assert child.pid is not None
    begun = time.monotonic()
    os.kill(child.pid, number)
    child.join()
    took_s.append(time.monotonic() - begun)
    if child.exitcode not in (-signal.SIGKILL, STOPPED, 0):
        raise SystemExit(f"a run ended with exit code {child.exitcode} after {number.name} in {place}")
    return None if child.exitcode == 0 else place


def finish(config: Config, out: Path) -> None:
    child = FORK.Process(target=work, args=(config, out))
    child.start()
    child.join()
    if child.exitcode != 0:
        raise SystemExit(f"a run ended with exit code {child.exitcode}")


def state(path: Path) -> dict[str, Any]:
    """All that must be equal: the last checkpoint, and the metrics without what a clock measured."""
    directory = RunDirectory(path)
    last = directory.checkpoints()[-1]
    tensors = {
        f"{file.relative_to(last)}:{name}": x
        for file in sorted(last.rglob("*.safetensors"))
        for name, x in load_file(file).items()
    }
    lines = [{k: v for k, v in line.items() if k != "seconds"} for line in directory.metrics()]
    return {"tensors": tensors, "metrics": lines, "state": (last / "state.json").read_text()}


def equal(a: dict[str, Any], b: dict[str, Any]) -> bool:
    x, y = a["tensors"], b["tensors"]
    if a["metrics"] != b["metrics"] or a["state"] != b["state"] or x.keys() != y.keys():
        return False
    return all(np.array_equal(x[k], y[k]) for k in x)


def configuration(method: str, checkpoint_every: int) -> Config:
    return session.configure(
        methods.get(method, n=4),
        world="sums",
        level=2,
        iterations=12,
        tasks=4,
        eval_tasks=8,
        eval_every=4,
        checkpoint_every=checkpoint_every,
        lr=3e-4,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--terminate", action="store_true", help="send SIGTERM instead of SIGKILL")
    parser.add_argument("--method", action="append", help="repeat it; the runs take turns")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    rng, place = random.Random(arguments.seed), Path(tempfile.mkdtemp(prefix="podium-kill-"))
    names = arguments.method or ["grpo", "ppo"]
    policy.load("podium/tiny")  # imports what loading a model imports
    wholes, every = {}, 0 if arguments.terminate else 1
    number, took_s = signal.SIGTERM if arguments.terminate else signal.SIGKILL, list[float]()
    targets = [target for target in SPAN_S if every or target != "checkpoint"]
    for name in names:
        finish(configuration(name, every), place / name)
        wholes[name] = state(place / name)
    fell: Counter[str] = Counter()
    runs, good = 0, 0
    while sum(fell.values()) < arguments.kills:
        name, out = names[runs % len(names)], place / f"run-{runs}"
        config, done = configuration(name, every), False
        while not done and sum(fell.values()) < arguments.kills:
            target = targets[sum(fell.values()) % len(targets)]
            times, delay_s = rng.randint(1, 3), rng.uniform(0, SPAN_S[target])
            where = killed(config, out, target, times, delay_s, number, took_s)
            done = where is None
            if where is not None:
                fell[where] += 1
        if not done:
            finish(config, out)
        same = equal(wholes[name], state(out))
        print(f"run {runs} ({name}): {'bit-equal' if same else 'DIFFERENT'}", flush=True)
        runs, good = runs + 1, good + same
    shutil.rmtree(place)
    if arguments.terminate:
        print(
            f"ended within {max(took_s):.2f} s of SIGTERM, half of them within {sorted(took_s)[len(took_s) // 2]:.2f} s"
        )
    print(f"killed {sum(fell.values())} times: " + ", ".join(f"{n} in {k}" for k, n in fell.most_common()))
    print(f"bit-equal: {good} of {runs} runs")
    return 0 if good == runs else 1


if __name__ == "__main__":
    raise SystemExit(main())
