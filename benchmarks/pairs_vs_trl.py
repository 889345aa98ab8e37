"""A training step on preference pairs against TRL's: DPO beside DPOTrainer, SimPO beside CPOTrainer.

    python benchmarks/pairs_vs_trl.py [--trl .cache/parity/trl/bin/python] [--steps 12]

The same model and the same pairs (right and wrong attempts at sums, level 2), 32 a step, one optimiser step each, one
thread. Each side runs in a process of its own, one after the other; TRL in an environment that `make parity` makes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
MODEL = ROOT / "src/podium/models/tiny"
PAIRS, WARM = 32, 2
METHODS = ("dpo", "simpo")


def pairs(count: int) -> list[dict[str, str]]:
    """So many questions with a right and a wrong attempt."""
    from podium import worlds

    world, rows = worlds.get("sums", level=2), []
    for number in range(count):
        task = world.task(number)
        right, slipped = ([world.attempt(task, "short", seed, chance) for seed in range(20)] for chance in (1.0, 0.5))
        wrong = next(bad for good, bad in zip(right, slipped, strict=True) if good != bad)
        rows.append({"prompt": task.prompt, "chosen": right[0], "rejected": wrong})
    return rows


def podium_side(method: str, rows: list[dict[str, str]]) -> list[float]:
    from podium import methods
    from podium.sessions.train import configure
    from podium.training.build import build_run
    from podium.training.loop import iterate

    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        file.write("".join(json.dumps(row) + "\n" for row in rows))
        file.flush()
        built = methods.get(method, source=file.name, mini_batches=1)
        run = build_run(configure(built, world="sums", level=2, tasks=PAIRS, lr=1e-5))
        times = []
        for _ in range(len(rows) // PAIRS):
            begun = time.perf_counter()
            iterate(run)
            times.append(time.perf_counter() - begun)
    return times[WARM:]


def trl_side(method: str, rows: list[dict[str, str]]) -> list[float]:
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
    from trl import DPOConfig, DPOTrainer
    from trl.experimental.cpo import CPOConfig, CPOTrainer

    times: list[float] = []

    class Clock(TrainerCallback):
        def on_step_begin(self, *_: Any, **__: Any) -> None:
            self.begun = time.perf_counter()

        def on_step_end(self, *_: Any, **__: Any) -> None:
            times.append(time.perf_counter() - self.begun)

    common: dict[str, Any] = {
        "output_dir": tempfile.mkdtemp(),
        "use_cpu": True,
        "bf16": False,
        "per_device_train_batch_size": PAIRS,
        "max_steps": len(rows) // PAIRS,
        "learning_rate": 1e-5,
        "gradient_checkpointing": False,
        "report_to": [],
        "logging_steps": 10_000,
        "save_strategy": "no",
        "disable_tqdm": True,
    }
    talk = [
        {
            "prompt": [{"role": "user", "content": row["prompt"]}],
            **{name: [{"role": "assistant", "content": row[name]}] for name in ("chosen", "rejected")},
        }
        for row in rows
    ]
    config = DPOConfig(beta=0.1, **common) if method == "dpo" else None
    if method == "simpo":
        config = CPOConfig(loss_type="simpo", beta=2.0, simpo_gamma=0.5, cpo_alpha=0.0, **common)
    trainer = (DPOTrainer if method == "dpo" else CPOTrainer)(
        model=AutoModelForCausalLM.from_pretrained(MODEL),
        args=config,
        train_dataset=Dataset.from_list(talk),
        processing_class=AutoTokenizer.from_pretrained(MODEL),
        callbacks=[Clock()],
    )
    trainer.train()
    return times[WARM:]


def timed(python: str, side: str, method: str, text: str) -> float:
    """The median seconds of a step, since these machines are noisy."""
    command = [python, __file__, "--side", side, "--method", method]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False, env=environment)
    if done.returncode != 0:
        raise SystemExit(f"The {side} side failed:\n{done.stderr[-2000:]}")
    seconds: list[float] = json.loads(done.stdout.strip().splitlines()[-1])
    return sorted(seconds)[len(seconds) // 2]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trl", default=str(ROOT / ".cache/parity/trl/bin/python"), help="a Python that has trl")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--side", choices=["podium", "trl"], help=argparse.SUPPRESS)
    parser.add_argument("--method", choices=METHODS, default=METHODS[0], help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.side:
        rows = json.loads(sys.stdin.read())
        print(json.dumps((podium_side if arguments.side == "podium" else trl_side)(arguments.method, rows)))
        return
    if not Path(arguments.trl).exists():
        raise SystemExit(f"There is no {arguments.trl}: run `make parity`, or name a Python that has trl with --trl.")
    text = json.dumps(pairs(PAIRS * (WARM + arguments.steps)))
    for method in METHODS:
        theirs = timed(arguments.trl, "trl", method, text)
        ours = timed(sys.executable, "podium", method, text)
        print(f"{method:<6} trl {theirs:.3f} s a step   podium {ours:.3f} s a step   ratio {theirs / ours:.2f}")


if __name__ == "__main__":
    main()
