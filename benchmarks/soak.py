"""Faults under load: eight methods are trained while everything around them fails.

    python benchmarks/soak.py [--minutes 30] [--seed 0] [--method grpo --method ppo …]

Runs are killed (SIGKILL), preempted (SIGTERM), starved of disk space, and resumed after a bit of their newest
checkpoint was flipped: in the end their weights, optimiser state, memories and metrics must equal those of an
undisturbed run, to the bit. Every third run is on a world that is slow, dies and lies instead: it must go on to its
end, with every failure of the world counted. Prints one line per run and the counts; exit code 1 if anything was lost.
"""

from __future__ import annotations

import argparse
import errno
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from unittest.mock import patch

from kill_resume import FORK, equal, state  # also sets OMP_NUM_THREADS, before torch is imported

from podium import policy
from podium.cli import main as podium
from podium.core.errors import Unfinished
from podium.store import files
from podium.store.run_directory import RunDirectory

METHODS = ("grpo", "ppo", "dapo", "spear", "r3", "archer", "seele", "gigpo")
FAULTS = ("kill", "preemption", "full disk")
EVAL_TASKS = 4
SETTINGS = (
    "iterations=10",
    "tasks=3",
    f"eval_tasks={EVAL_TASKS}",
    "eval_every=5",
    "checkpoint_every=2",
    "keep_checkpoints=3",
)
ONE_TURN = ("grpo", "ppo", "dapo")  # those that learn on the unreliable world
WORLDS = {"archer": ("keydoor", "1"), "gigpo": ("keydoor", "1"), "spear": ("tools", "1")}
UNRELIABLE = '''
"""A world that is slow, dies and lies, and keeps a record of it."""
import hashlib, os, time
from pathlib import Path
from podium.worlds import Answer, Feedback, Task

RECORD = Path(__file__).with_name("failures.txt")

class Unreliable(Answer):
    name = "unreliable"
    act_limit_s = 1.0
    max_tokens = 8

    def task(self, index, split="train"):
        return Task(f"unreliable/{split}/{index}", f"{index % 7} plus {index % 5}")

    def grade(self, task, text):
        draw = hashlib.sha256((task.key + text).encode()).digest()[0]
        failures = {0: "slow", 1: "dies", 2: "raises", 3: "lies", 4: "lies about its type"}
        if draw % 24 in failures:
            with RECORD.open("a") as file:
                file.write(failures[draw % 24] + "\\n")
        if draw % 24 == 0:
            time.sleep(60)
        if draw % 24 == 1:
            os._exit(7)
        if draw % 24 == 2:
            raise RuntimeError("no verdict today")
        if draw % 24 == 3:
            return Feedback(float("nan"))
        if draw % 24 == 4:
            return "splendid"
        return Feedback(float(draw % 2), info={"correct": bool(draw % 2), "answer": text[:8]})
'''


def work(words: list[str], log: Path, room: int | None) -> None:
    """A child: `podium` with these words, on a disk with so many bytes of room."""
    with log.open("a") as out, redirect_stdout(out), redirect_stderr(out), patch.object(files, "_sync", _Disk(room)):
        code = podium(words)
    os._exit(code)


class _Disk:
    """Stands for the system's sync: the disk is full once the files that were written fill its room."""

    def __init__(self, room: int | None) -> None:
        self.room, self.sync = room, files._sync

    def __call__(self, path: Path) -> None:
        if self.room is not None and path.is_file():
            self.room -= path.stat().st_size
            if self.room < 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.sync(path)


def attempt(words: list[str], log: Path, fault: str, rng: random.Random, longest_s: float = 0.0) -> int:
    """Start or resume a run, and let the fault befall it within `longest_s`; its exit code, negative for a signal."""
    child = FORK.Process(target=work, args=(words, log, rng.randint(0, 30_000_000) if fault == "full disk" else None))
    child.start()
    child.join(rng.uniform(0, longest_s) if fault in ("kill", "preemption") else None)
    if child.is_alive():
        assert child.pid is not None
        os.kill(child.pid, signal.SIGKILL if fault == "kill" else signal.SIGTERM)
    child.join()
    assert child.exitcode is not None
    return child.exitcode


def flip(checkpoint: Path, rng: random.Random) -> None:
    """Flip one bit of a checkpoint."""
    file = rng.choice(sorted(f for f in checkpoint.rglob("*") if f.is_file() and f.stat().st_size))
    content = bytearray(file.read_bytes())
    content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    file.write_bytes(content)


def words_for(method: str, out: Path, world: str | None = None) -> list[str]:
    name, level = (world, "1") if world else WORLDS.get(method, ("sums", "2"))
    changes = [word for setting in SETTINGS for word in ("--set", setting)]
    return ["train", method, "--world", name, "--level", level, "--out", str(out), "--quiet", *changes]


def disturbed(method: str, out: Path, log: Path, rng: random.Random, longest_s: float, fell: Counter[str]) -> str:
    """Train a method through faults until it has finished; what went wrong beyond them, in words."""
    allowed = {"kill": (0, -signal.SIGKILL), "preemption": (0, Unfinished.exit_code), "full disk": (0, 2), "": (0,)}
    for trial in range(12):
        fault = rng.choice(FAULTS) if trial < 8 else ""
        begun = (out / "config.yaml").exists()
        checkpoints = RunDirectory(out).checkpoints()
        if len(checkpoints) > 1 and rng.random() < 0.5:
            flip(checkpoints[-1], rng)
            fell["flipped bit"] += 1
        words = ["train", "--resume", str(out), "--quiet"] if begun else words_for(method, out)
        trained = len(RunDirectory(out).metrics()) if begun else 0
        code = attempt(words, log, fault, rng, longest_s)
        if code == -signal.SIGTERM and len(RunDirectory(out).metrics()) == trained:
            continue  # preempted before it trained or after it finished, when SIGTERM ends any program
        if code not in allowed[fault]:
            return f"exit code {code} after {fault or 'no fault'}"
        if code:
            fell[fault] += 1
        if code == 0:
            return ""
    return "it never finished"


def on_unreliable_world(method: str, out: Path, folder: Path, log: Path, rng: random.Random) -> tuple[str, int]:
    """Train on a world that fails; what went wrong beyond that, and how many of its failures were counted."""
    record = folder / "failures.txt"
    record.unlink(missing_ok=True)
    code = attempt(words_for(method, out, f"{folder / 'unreliable.py'}:Unreliable"), log, "", rng)
    if code:
        return f"exit code {code}", 0
    caused = len(record.read_text().splitlines()) if record.exists() else 0
    of_evaluation = EVAL_TASKS * 2  # rollouts
    lines = RunDirectory(out).metrics()
    counted = round(sum(line.get("failures", 0) + of_evaluation * line.get("eval.failed", 0) for line in lines))
    return ("" if counted == caused else f"{caused} failures of the world, {counted} counted"), caused


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--method", action="append")
    arguments = parser.parse_args()
    rng, folder = random.Random(arguments.seed), Path(tempfile.mkdtemp(prefix="podium-soak-"))
    (folder / "unreliable.py").write_text(UNRELIABLE)
    os.chdir(folder)  # the project that the world's file stands in
    log, names = folder / "log.txt", arguments.method or list(METHODS)
    policy.load("podium/tiny")  # imports what loading a model imports
    until, wholes, seconds = time.monotonic() + 60 * arguments.minutes, {}, {}
    for name in names:
        begun = time.monotonic()
        if attempt(words_for(name, folder / name), log, "", rng):
            raise SystemExit(f"{name} does not train: {log.read_text()[-2000:]}")
        wholes[name], seconds[name] = state(folder / name), time.monotonic() - begun
    number, equals, failures, trained, fell, problems = 0, 0, 0, set[str](), Counter[str](), list[str]()
    while time.monotonic() < until:
        out, unreliable = folder / f"run-{number}", number % 3 == 2
        name = ONE_TURN[number // 3 % len(ONE_TURN)] if unreliable else names[(number - number // 3) % len(names)]
        if unreliable:
            problem, caused = on_unreliable_world(name, out, folder, log, rng)
            failures += caused
        else:
            problem = disturbed(name, out, log, rng, seconds[name], fell)
            trained.add(name)
            if not problem and not equal(wholes[name], state(out)):
                problem = "other weights, state or metrics than the undisturbed run"
            equals += not problem
        where = "on the unreliable world" if unreliable else "through faults"
        print(f"run {number} ({name}, {where}): {problem or 'nothing lost'}", flush=True)
        problems += [problem] if problem else []
        if not problem:
            shutil.rmtree(out, ignore_errors=True)
        number += 1
    print("faults: " + ", ".join(f"{n} × {kind}" for kind, n in fell.most_common()))
    print(f"failures of the unreliable world, all counted: {failures}")
    print(f"bit-equal: {equals} runs; problems: {len(problems)} in {number} runs of {len(trained)} methods")
    if not problems:
        shutil.rmtree(folder)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
