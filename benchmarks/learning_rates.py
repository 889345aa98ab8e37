"""Which learning rate suits how many optimiser steps per batch: the runs behind `podium.training.learning_rates`.

    python benchmarks/learning_rates.py --world sums --level 2 --iterations 12

Trains DAPO's loss (a clipped ratio, no KL penalty) on one world, for each number of steps and each learning rate, and
prints the mean held-out pass@1 at the end over the seeds. The best rate of each row is marked.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from podium import methods
from podium.sessions.train import train


def final(steps: int, lr: float, seed: int, given: argparse.Namespace) -> tuple[float, float]:
    """Held-out pass@1 before and after a run."""
    method = methods.get("grpo", kl=0.0).set("updates.mini_batches", steps)
    settings = {"world": given.world, "level": given.level, "iterations": given.iterations, "tasks": given.tasks}
    with tempfile.TemporaryDirectory() as folder:
        result = train(
            method,
            out=Path(folder) / "run",
            model=given.model,
            device=given.device,
            seed=seed,
            lr=lr,
            eval_every=0,
            eval_tasks=256,
            checkpoint_every=0,
            **settings,
        )
    return result.evaluations[0]["eval.pass@1"], result.evaluations[-1]["eval.pass@1"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="podium/tiny")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--world", default="sums")
    parser.add_argument("--level", type=int, default=2)
    parser.add_argument("--iterations", type=int, default=12)
    parser.add_argument("--tasks", type=int, default=16)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--steps", type=int, nargs="+", default=[1, 2, 4, 8, 16])
    parser.add_argument("--rates", type=float, nargs="+", default=[5e-5, 1e-4, 2e-4, 4e-4, 8e-4])
    given = parser.parse_args()
    print(f"{given.model} on {given.world} {given.level}, {given.iterations} iterations of {given.tasks} tasks")
    print("steps  " + "  ".join(f"{rate:>9.0e}" for rate in given.rates))
    for steps in given.steps:
        outcomes = []
        for rate in given.rates:
            pairs = [final(steps, rate, seed, given) for seed in range(given.seeds)]
            outcomes.append(sum(after for _, after in pairs) / len(pairs))
        best = max(outcomes)
        cells = [f"{value:.3f}{'*' if value == best else ' '}" for value in outcomes]
        print(f"{steps:5}  " + "  ".join(f"{cell:>9}" for cell in cells), flush=True)


if __name__ == "__main__":
    main()
