"""Whole GRPO steps of larger models on one GPU: seconds, where they go, peak memory, and the sampler's gap.

    python benchmarks/gpu_larger.py [1.5B 3B 7B 7B:moments=8bit 7B:lora=16,micro_tokens=2048] [--steps 3] [--small]

256 rollouts of 128 + 256 tokens, 8 to a prompt, one update, no KL penalty, in bfloat16; models of Qwen2.5's shapes with
random weights. After a colon come settings of the run. Each model runs in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch
from gpu_step import _memory, _synchronise, sizes
from gpu_update import DEVICE, policy

ALL = ("1.5B", "3B", "7B:moments=8bit", "7B:lora=16", "7B:lora=16,micro_tokens=2048")
WARM = 2  # iterations that compile kernels and capture graphs


def measure(case: str, steps: int, small: bool) -> dict[str, Any]:
    """One model: the seconds of each iteration after the first ones, and what the last one reports."""
    from podium import methods
    from podium import policy as policies
    from podium.policy.model import lora
    from podium.sessions.train import configure
    from podium.training.build import build_run
    from podium.training.loop import iterate

    name, _, given = case.partition(":")
    pairs = (pair.split("=") for pair in given.split(",") if pair)
    settings: dict[str, Any] = {name: int(value) if value.isdecimal() else value for name, value in pairs}
    rank = settings.get("lora")
    low = rank is not None and DEVICE.type == "cuda"
    made = policy(name, torch.bfloat16 if low else torch.float32)
    if rank is not None:
        made = type(made)(lora.attach(made.model, {"r": rank}), made.tokenizer, name=name)
    policies.load = lambda *_, **__: made  # type: ignore[assignment]
    prompts, copies, limit, _ = sizes(small)
    where = {"device": "cuda", "dtype": "bfloat16"} if DEVICE.type == "cuda" else {}
    world = f"{Path(__file__).with_name('gpu_step.py')}:Digits"
    settings |= {"tasks": prompts, "max_tokens": limit, "lr": 1e-6, **where}
    run = build_run(configure(methods.get("grpo", n=copies, kl=0.0, mini_batches=1), world=world, **settings))
    times = []
    for number in range(WARM + steps):
        if number == WARM and DEVICE.type == "cuda":
            torch.cuda.reset_peak_memory_stats()
        _synchronise()
        begun = time.perf_counter()
        _, line = iterate(run)
        _synchronise()
        times.append(round(time.perf_counter() - begun, 2))
    found = {name: line.get(name) for name in ("seconds", "sampler_gap", "tokens")}
    notes = [note for note in run.policy.notes if "GiB" in note or "slow" in note]
    return {"times": times, "memory": _memory(), "micro_tokens": run.trainer.micro_tokens, "notes": notes, **found}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", default=ALL)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--small", action="store_true", help="few short rollouts, on a CPU too")
    parser.add_argument("--only", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only:
        print(json.dumps(measure(options.only, options.steps, options.small)))
        return 0
    failed = 0
    for case in options.cases:
        command = [sys.executable, __file__, "--only", case, "--steps", str(options.steps)]
        done = subprocess.run(command + ["--small"] * options.small, capture_output=True, text=True, check=False)
        if done.returncode:
            failed, lines = 1, done.stderr.strip().splitlines()
            print(f"{case:18} failed: {lines[-1] if lines else done.returncode}", flush=True)
            continue
        print(*(line for line in done.stderr.splitlines() if "Warning:" in line), sep="\n", end="", flush=True)
        found = json.loads(done.stdout.splitlines()[-1])
        after = sorted(found["times"][WARM:])
        spent = ", ".join(f"{k} {v:.2f}" for k, v in (found["seconds"] or {}).items())
        print(
            f"{case:18} {after[len(after) // 2]:6.2f} s a step {found['times']} ({spent}), {found['memory']:.1f} GiB, "
            f"gap {found['sampler_gap']:.1e}, {found['micro_tokens']:,} tokens at a time {found['notes']}",
            flush=True,
        )
    return failed


if __name__ == "__main__":
    sys.exit(main())
