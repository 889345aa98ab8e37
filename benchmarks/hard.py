"""A level that the small model hardly ever solves: what does each method learn there from the same number of tokens?

    python benchmarks/hard.py --jobs 16 --out DIR [--world countdown] [--level 5] [--budget 1000000] [METHOD …]

Every method trains with every seed until `--budget` tokens were sampled or encoded (contexts and given texts count, and
so do rollouts that are thrown away), on the same finite set of tasks with the same random numbers, 8 rollouts a task,
and no penalty towards the reference in any. Held-out pass@1 is measured eight times on the way, the last time with more
samples. Runs are jobs in processes of one thread; the same command goes on where it was stopped. DIR gets
one file per run, `table.md` and `hard.svg`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

METHODS = ("grpo", "ngrpo", "scaf-grpo", "sage", "ghpo", "dars", "vade", "r3", "xrpo")
SETTINGS: dict[str, dict[str, Any]] = {
    "scaf-grpo": {"after": 2},  # a tenth of a short run, as in the paper
    "archer@light": {"critic_lr": 1e-3},
}
RATES = {"archer@light": 3e-5}  # of those that need another learning rate than the rest
N, TASKS, POOL, MEASURES = 8, 8, 128, 8
TEST_TASKS, TEST_SAMPLES, LAST_SAMPLES = 128, 2, 8


def method_of(name: str) -> Any:
    """The method with 8 rollouts a task, and without a penalty towards the reference."""
    import inspect

    from podium import methods

    known = inspect.signature(methods.CATALOGUE[name.partition("@")[0]].build).parameters
    settings = {"kl": 0.0} if "kl" in known else {}
    made = methods.get(name, **settings, **SETTINGS.get(name, {}))
    strategy = made.rollout
    return made.with_(rollout=strategy.replace(n=N)) if "n" in strategy.field_names() else made


def world_of(name: str, level: int) -> Any:
    """The world with a finite set of tasks to train on, so that they come again."""
    from podium import worlds

    world = worlds.get(name, level=level)
    kind = type("Few", (type(world),), {"size": lambda self, split="train": POOL if split == "train" else None})
    return kind(**world.settings())


def train(name: str, seed: int, given: argparse.Namespace) -> dict[str, Any]:
    """One run: held-out pass@1 by tokens spent, and what was spent on what."""
    from podium.evaluation.measure import held_out, measure
    from podium.sessions.train import configure
    from podium.training.build import build_run
    from podium.training.loop import iterate

    world = world_of(given.world, given.level)
    settings = {"tasks": TASKS, "iterations": 1_000_000, "lr": RATES.get(name, given.lr)}
    run = build_run(configure(method_of(name), world=world, seed=seed, **settings))

    def passed(samples: int = TEST_SAMPLES) -> float:
        groups = held_out(
            run.driver, tasks=given.test_tasks, samples=samples, max_tokens=world.max_tokens, seed=1_000_000
        )
        return measure(groups)["pass@1"].mean

    curve, sampled, encoded, live, seconds = [(0, passed(LAST_SAMPLES))], 0, 0, 0.0, 0.0
    while sampled + encoded < given.budget:
        _, line = iterate(run)
        sampled, encoded = sampled + line["tokens.sampled"], encoded + line["tokens.encoded"]
        live += 1 - line["flat_groups"]
        seconds += sum(line["seconds"].values())
        if sampled + encoded >= len(curve) * given.budget / given.measures:
            last = sampled + encoded >= given.budget
            curve.append((sampled + encoded, passed(LAST_SAMPLES if last else TEST_SAMPLES)))
    spent = {"sampled": sampled, "encoded": encoded, "iterations": run.iteration, "seconds": round(seconds, 1)}
    return {"method": name, "seed": seed, "curve": curve, "mixed": live / run.iteration, **spent}


def place(out: Path, name: str, seed: int) -> Path:
    return out / f"{name.replace('@', '-')}-{seed}.json"


def job(name: str, seed: int, given: argparse.Namespace, arguments: Sequence[str]) -> str:
    """Train in a process of its own, unless that was done already."""
    target = place(given.out, name, seed)
    if not target.is_file():
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        done = subprocess.run(
            [sys.executable, __file__, *arguments, "--one", name, str(seed)],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            return f"{name} {seed}: {done.stderr.strip().splitlines()[-1][:300]}"
    found = json.loads(target.read_text())
    return f"{name} {seed}: {found['curve'][0][1]:.3f} → {found['curve'][-1][1]:.3f} in {found['seconds']} s"


def report(given: argparse.Namespace, names: Sequence[str]) -> str:
    """The table as text; writes it and the figure."""
    import numpy as np

    from podium.report.chart import Series, chart, picture
    from podium.sessions.compare import interval

    found = {
        name: [json.loads(place(given.out, name, seed).read_text()) for seed in range(given.seeds)]
        for name in names
        if all(place(given.out, name, seed).is_file() for seed in range(given.seeds))
    }
    grid = np.linspace(0, given.budget, given.measures + 1)
    lines = [
        "| method | held-out pass@1 | 95 % | beside the first | 95 % | sampled | encoded | iterations | mixed groups |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    curves, base = [], None
    for name, runs in found.items():
        values = np.stack([np.interp(grid, *zip(*run["curve"], strict=True)) for run in runs])
        finals = np.array([run["curve"][-1][1] for run in runs])
        base = finals if base is None else base
        difference = finals - base
        cells = [name, f"{finals.mean():.3f}", "[{:.3f}, {:.3f}]".format(*interval(finals.tolist()))]
        own = base is finals
        cells += (
            ["", ""]
            if own
            else [f"{difference.mean():+.3f}", "[{:+.3f}, {:+.3f}]".format(*interval(difference.tolist()))]
        )
        cells += [f"{np.mean([run[k] for run in runs]):,.0f}" for k in ("sampled", "encoded", "iterations")]
        cells.append(f"{np.mean([run['mixed'] for run in runs]):.0%}")
        lines.append(f"| {' | '.join(cells)} |")
        bands = [interval(values[:, i].tolist()) for i in range(len(grid))]
        low, high = [max(b[0], 0.0) for b in bands], [b[1] for b in bands]
        curves.append(Series(name, grid.tolist(), values.mean(0).tolist(), low, high))
    table = "\n".join(lines)
    (given.out / "table.md").write_text(table + "\n")
    title = f"held-out pass@1, {given.world} {given.level}"
    drawn = picture([chart(title, curves, x_label="tokens sampled and encoded")], curves)
    (given.out / f"{Path(sys.argv[0]).stem}.svg").write_text(drawn)
    return table


def main(names: Sequence[str] = METHODS, **defaults: Any) -> None:
    """The command, for these methods and with these defaults of its options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("methods", nargs="*")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("runs/hard"))
    parser.add_argument("--world", default="countdown")
    parser.add_argument("--level", type=int, default=5)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--budget", type=int, default=1_000_000, help="tokens sampled and encoded")
    parser.add_argument("--lr", type=float, default=1e-4)
    parser.add_argument("--measures", type=int, default=MEASURES, help="times that pass@1 is measured on the way")
    parser.add_argument("--test-tasks", type=int, default=TEST_TASKS, help="held-out tasks")
    parser.add_argument("--one", nargs=2, metavar=("METHOD", "SEED"), help=argparse.SUPPRESS)
    parser.set_defaults(**defaults)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    if given.one:
        name, seed = given.one[0], int(given.one[1])
        target = place(given.out, name, seed)
        part = target.with_suffix(".part")
        part.write_text(json.dumps(train(name, seed, given)))
        part.replace(target)
        return
    names = given.methods or list(names)
    kept = ("out", "world", "level", "seeds", "budget", "lr", "measures", "test_tasks")
    arguments = [a for k in kept for a in (f"--{k.replace('_', '-')}", str(getattr(given, k)))]
    with ThreadPoolExecutor(given.jobs) as pool:  # seed by seed, so that what is there so far can be compared
        for said in pool.map(
            lambda pair: job(pair[1], pair[0], given, arguments), [(s, m) for s in range(given.seeds) for m in names]
        ):
            print(said, flush=True)
    print(report(given, names))


if __name__ == "__main__":
    main()
