"""`python -m tools.checks slow|gpu [NAME …]` runs the checks and writes `checks/slow.md` or `checks/gpu.md`.

Each check is a command. It passes if it exits with 0, and counts as skipped if it exits with 77; the last line that it
prints, or the one that FIGURES names, is its figure in the table. A check that was not run this time keeps its row, so
the table says when each last passed.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PYTHON = sys.executable
GPU_TESTS = (
    "tests/policy/cuda",
    "tests/policy/native",
    "tests/sampler/test_paged.py",
    "tests/sampler/test_paged_draws.py",
    "tests/sampler/test_paged_prompts.py",
    "tests/sampler/test_out_of_memory.py",
    "tests/sampler/test_local.py",
    "tests/policy/model/test_load.py",
    "tests/training/test_copies.py",
    "tests/core/test_cuda.py",
)
FUZZ = "tests/store/test_fuzz.py"
SKIPPED = 77  # the exit code of a check that cannot be made on this machine: neither passed nor failed
Command = tuple[str, ...]
CHECKS: dict[str, dict[str, Command]] = {
    "slow": {
        "conformance": (PYTHON, "-m", "tests.conformance"),
        "battery": (PYTHON, "-m", "podium.testing"),
        "mutate": (PYTHON, "-m", "tools.numbers", "mutate"),
        "homes": (PYTHON, "-m", "tools.checks.homes"),
        "probes": (PYTHON, "-m", "tools.checks.probes", "--presets"),
        "soak": (PYTHON, "-m", "tools.checks.soak"),
        "faults": (PYTHON, "benchmarks/soak.py", "--minutes", "30"),
        "kills": (PYTHON, "benchmarks/kill_resume.py", "--kills", "20"),
        "damage": ("env", "FUZZ_ROUNDS=20", PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider", FUZZ),
        "distribution": (PYTHON, "-m", "tools.dist"),
        "parity": (PYTHON, "tests/parity/run.py"),
        "supply": (PYTHON, "-m", "tools.checks.supply"),
        "audit": (PYTHON, "-m", "tools.checks.supply", "audit"),
        "claims": (PYTHON, "-m", "tools.checks.claims"),
        "sanitizers": (PYTHON, "-m", "tools.checks.sanitizers"),
    },
    "gpu": {
        "tests": (PYTHON, "-m", "pytest", "-o", "addopts=", "-q", "-p", "no:cacheprovider", *GPU_TESTS),
        "demo": (
            PYTHON,
            "-m",
            "podium.cli",
            "train",
            "--device",
            "cuda",
            "--iterations",
            "10",
            "--out",
            "runs/gpu-check",
        ),
        "homes": (PYTHON, "-m", "tools.checks.homes", "--processes", "14", "--device", "cuda"),
        "probes": (PYTHON, "-m", "tools.checks.probes", "--presets", "--processes", "14", "--device", "cuda"),
        "decode": (PYTHON, "benchmarks/gpu.py", "decode"),
        "methods": (PYTHON, "benchmarks/gpu_step.py", "--sides", "methods", "--steps", "2"),
    },
}
ABOUT = {
    "conformance": "every method reproduces its reference vectors",
    "battery": "every part passes the battery",
    "mutate": "a changed sign, factor, bound or term of an entry point is noticed by the vectors and tests that run it",
    "homes": "every method trains at its home by its name alone, learns there, and every part of it acts",
    "probes": "every part of every method, and the method beside what it extends: over 1 % of the update apart",
    "soak": "memory and time per iteration stay flat over a long run",
    "faults": "runs go on through kills, preemption, full disks, flipped bits and worlds that fail; nothing is lost",
    "kills": "runs killed at random moments resume to the bit",
    "damage": "every file of a run, damaged in 220 random ways, is named or healed",
    "distribution": "wheel and sdist install outside the checkout without a compiler and train",
    "parity": "numbers equal those of trl, verl, fairlearn, cvxpy and Vowpal Wabbit; vLLM samples, and verifiers train",
    "supply": "the lock file fits pyproject.toml and what is installed; dependencies are used and declared",
    "audit": "no known vulnerability in a locked version",
    "claims": "mechanisms of five frozen claims act as in the committed results",
    "sanitizers": "the C kernels under AddressSanitizer and UndefinedBehaviorSanitizer",
    "tests": "the tests that need a GPU",
    "demo": "the demonstration on a GPU",
    "decode": "tokens per second, floors, and agreement of sampler and trainer",
    "methods": "time per step of methods beside GRPO",
}


FIGURES = {
    "tests": r"\d+ passed.*",
    "demo": r"Held-out pass@1.*",
    "decode": r"135M whole rollouts.*",
    "methods": r"^methods +[\d.]+ s a step",
    "soak": r"\d+ iterations:.*",
    "faults": r"bit-equal.*",
    "kills": r"bit-equal.*",
    "mutate": r"\d+ of \d+ mutants are noticed.*",
}


def run(name: str, command: Command, commit: str) -> dict[str, Any]:
    """The result of a check as it stands in the table."""
    print(f"== {name}: {ABOUT[name]}", flush=True)
    start, lines = time.monotonic(), []
    paths = [str(ROOT / "src"), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            lines += [line.strip()] if line.strip() else []
    return {
        "passed": process.returncode == 0,
        **({"skipped": True} if process.returncode == SKIPPED else {}),
        "figure": _figure(name, lines),
        "date": datetime.date.today().isoformat(),
        "commit": commit,
        "minutes": round((time.monotonic() - start) / 60, 1),
        "machine": _machine(),
    }


def _figure(name: str, lines: list[str]) -> str:
    named = [match[0] for line in lines if (match := re.search(FIGURES.get(name, ".*"), line))]
    return named[-1] if named else ""


def table(kind: str, results: dict[str, Any]) -> str:
    lines = [
        f"# Results of `make {kind}`",
        "",
        f"Written by `python -m tools.checks {kind}`. A row says when the check last ran, at which commit, and how it "
        "ended.",
        "",
        "| check | what it shows | result | figure | date | commit | minutes | machine |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name in CHECKS[kind]:
        row = results.get(name)
        if row is None:
            lines.append(f"| {name} | {ABOUT[name]} | not run yet | | | | | |")
            continue
        outcome = "skipped" if row.get("skipped") else "passed" if row["passed"] else "**failed**"
        figure = row["figure"].replace("|", "/")
        cells = (name, ABOUT[name], outcome, figure, row["date"], row["commit"], row["minutes"], row["machine"])
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines) + "\n"


def _commit() -> str:
    described = subprocess.run(
        ("git", "describe", "--always", "--dirty"), cwd=ROOT, capture_output=True, text=True, check=False
    )
    return described.stdout.strip() or "unknown"


def _machine() -> str:
    import torch

    if torch.cuda.is_available():
        return str(torch.cuda.get_device_name())
    info = Path("/proc/cpuinfo")
    names = [line.partition(":")[2].strip() for line in info.read_text("utf-8").splitlines() if "model name" in line]
    return f"{names[0] if names else platform.machine()}, {os.cpu_count()} cores"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=CHECKS)
    parser.add_argument("names", nargs="*", help="some of the checks (all)")
    parser.add_argument("--commit", default=_commit(), help="what is checked, where the tree is no repository")
    given = parser.parse_args()
    unknown = set(given.names) - set(CHECKS[given.kind])
    if unknown:
        parser.error(f"there is no check {', '.join(sorted(unknown))}; there are {', '.join(CHECKS[given.kind])}")
    data = ROOT / "checks" / f"{given.kind}.json"
    data.parent.mkdir(exist_ok=True)
    results = json.loads(data.read_text("utf-8")) if data.exists() else {}
    for name in given.names or CHECKS[given.kind]:
        results[name] = run(name, CHECKS[given.kind][name], given.commit)
        data.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", "utf-8")
        (ROOT / "checks" / f"{given.kind}.md").write_text(table(given.kind, results), "utf-8")
    failed, skipped = [], []
    for name in given.names or CHECKS[given.kind]:
        if not results[name]["passed"]:
            (skipped if results[name].get("skipped") else failed).append(name)
    print(f"failed: {', '.join(failed)}" if failed else "none failed")
    if skipped:
        print(f"skipped: {', '.join(skipped)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
