"""Whether overlapping groups are a better baseline than tracked tasks: the gradient's variance at a fixed policy.

    python benchmarks/group_experts.py [--world rules --level 2 --pools 128,1024 --iterations 24 --seeds 4]

`spo-single-stream@online` and `@groups` with a learning rate so small that no weight changes: both draw the same tasks
and the same rollouts. Without whitening, and in one update per batch, each gradient is Σ (r − v) ∇ log π, whose mean
does not depend on v; so the difference of the mean squared norms is the difference of the variances. The ratio of the
mean squared norms, experts over tracker, is printed with its 95 % interval over seeds and iterations.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

import numpy as np

import podium
from podium import methods
from podium.evaluation.resample import Measure, estimate

FIXED = 1e-30  # a learning rate that moves nothing


def squared_norms(preset: str, out: Path, iterations: int, **settings: object) -> list[float]:
    """[iteration] the squared norm of the gradient, but for the first, in which neither baseline knows anything."""
    method = methods.get(f"spo-single-stream@{preset}", mini_batches=1).with_(shape=())
    podium.train(method, out=out, lr=FIXED, iterations=iterations, eval_every=0, eval_tasks=1, **settings)
    rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text("utf-8").splitlines()]
    return [row["grad_norm.policy"] ** 2 for row in rows if row["iteration"] > 1]


def ratio(world: str, level: int, pool: int, iterations: int, seeds: int, tasks: int) -> Measure:
    pairs = []
    for seed in range(seeds):
        with tempfile.TemporaryDirectory() as folder:
            settings = {"world": world, "level": level, "pool": pool, "seed": seed, "tasks": tasks}
            both = [squared_norms(name, Path(folder) / name, iterations, **settings) for name in ("groups", "online")]
        pairs.append(np.stack(both, axis=-1))
    return estimate(np.stack(pairs), lambda sums: sums[:, 0] / sums[:, 1])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--world", default="rules")
    parser.add_argument("--level", type=int, default=2)
    parser.add_argument("--pools", default="128,1024", help="numbers of tasks")
    parser.add_argument("--iterations", type=int, default=24)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--tasks", type=int, default=48)
    given = parser.parse_args()
    for pool in map(int, given.pools.split(",")):
        found = ratio(given.world, given.level, pool, given.iterations, given.seeds, given.tasks)
        print(f"{given.world} {given.level}, pool of {pool}: {found.mean:.3f} [{found.low:.3f}, {found.high:.3f}]")


if __name__ == "__main__":
    main()
