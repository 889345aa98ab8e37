"""A real model in minutes: SmolLM2-135M-Instruct on short sums of reasoning-gym, by several methods side by side.

    python benchmarks/smol.py --model MODEL --device cuda --minutes 8 --out DIR [VARIANT …]

MODEL is a GGUF file, which is read once for all, or a directory. Each variant trains in a process of its own on the
same device and is measured on held-out tasks at temperature 1, before the first iteration and after every `--every`
seconds of training; seconds of training (sampling and updates) and of evaluation are counted apart. A variant stops
when `--minutes` since the start of the command are nearly over, after `--iterations`, or when pass@1 has come to
`--enough`; then it is measured once more on more tasks, and by its most likely answers. DIR gets one file per variant,
renewed after every evaluation, and `table.md` and `smol.svg`, renewed as long as anything runs.

On a CPU, to see that it works: `--model podium/tiny --minutes 1 --tasks 4 --n 4 --test-tasks 8 --last-tasks 8`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

WORLD = {"min_terms": 2, "max_terms": 3, "max_digits": 2, "instructions": False}
MAX_TOKENS = 48  # a solution in three lines has 30
EXAMPLES = 6


@dataclass(frozen=True)
class Variant:
    """A method of the catalogue with its settings, and how it is trained."""

    method: str
    settings: dict[str, Any] = field(default_factory=dict)
    n: int = 32  # rollouts a task
    tasks: int = 64  # an iteration
    lr: float = 3e-5
    run: dict[str, Any] = field(default_factory=dict)  # settings of the run

    def make(self, n: int | None) -> Any:
        from podium import methods

        return methods.get(self.method, n=n or self.n, **self.settings)


VARIANTS = {
    "grpo": Variant("grpo", {"kl": 0.0}, n=16, lr=1e-5),  # rewards alone
    "hpt": Variant("hpt", {"gate": 2}, n=8, tasks=128, lr=3e-5),  # imitates a solution where at most 2 of 8 are right
    "hpt-fast": Variant("hpt", {"gate": 2}, n=8, tasks=128, lr=1e-4),
    # What a smaller optimiser or adapters do to learning, beside hpt-fast:
    "hpt-float32": Variant("hpt", {"gate": 2}, n=8, tasks=128, lr=1e-4, run={"dtype": "float32"}),
    "hpt-8bit": Variant("hpt", {"gate": 2}, n=8, tasks=128, lr=1e-4, run={"moments": "8bit"}),
    "hpt-lora": Variant("hpt", {"gate": 2}, n=8, tasks=128, lr=1e-3, run={"lora": 16}),
}
USUAL = ("grpo", "hpt", "hpt-fast")


def train(name: str, given: argparse.Namespace) -> None:
    """One variant from start to end; what is known of it so far is always in its file."""
    from podium.sessions.train import configure
    from podium.training.build import build_run
    from podium.training.loop import iterate

    variant, begun = VARIANTS[name], time.monotonic()
    settings: dict[str, Any] = {"world": "gym:chain_sum", "world_settings": WORLD, "max_tokens": MAX_TOKENS}
    settings |= {"model": given.model, "device": given.device, "dtype": given.dtype, "seed": given.seed}
    settings |= {"tasks": given.tasks or variant.tasks, "iterations": given.iterations, "lr": variant.lr}
    settings |= variant.run
    run = build_run(configure(variant.make(given.n), **settings))
    found: dict[str, Any] = {"variant": name, "method": variant.method, "settings": variant.settings}
    found |= {"n": given.n or variant.n, "tasks": run.config.tasks, "lr": variant.lr, "dtype": run.config.dtype}
    found |= {"loading": time.monotonic() - begun, "curve": []}
    spent = {"training": 0.0, "evaluation": 0.0}
    rollouts, took = 0, list[float]()
    window: list[Mapping[str, Any]] = []  # the iterations since the last evaluation

    def watched() -> float:
        """Measure, write down, say; returns pass@1."""
        before = time.monotonic()
        point, _ = measured(run, given.test_tasks, given.test_samples)
        took.append(time.monotonic() - before)
        spent["evaluation"] += took[-1]
        point |= {"iteration": run.iteration, "rollouts": rollouts, **spent}
        for key in ("reward", "flat_groups", "sampler_gap", "entropy", "grad_norm.policy"):
            seen = [line[key] for line in window if key in line]
            point |= {f"train.{key}": sum(seen) / len(seen)} if seen else {}
        window.clear()
        found["curve"].append(point)
        write(given.out, found)
        print(f"{name:<5} {said(point)}", flush=True)
        return float(point["pass@1"])

    passed, share = watched(), given.last_tasks * given.last_samples / (given.test_tasks * given.test_samples)
    due = given.every
    while passed < given.enough and not run.finished:
        if time.time() + 3 + 1.5 * share * min(took) >= given.until:  # the last measuring takes its time
            break
        before = time.monotonic()
        _, line = iterate(run)
        spent["training"] += time.monotonic() - before
        rollouts += found["n"] * run.config.tasks
        window.append(line)
        if spent["training"] >= due:
            passed, due = watched(), spent["training"] + given.every
    if window:
        watched()
    found["last"], found["examples"] = measured(run, given.last_tasks, given.last_samples)
    found["last"] |= {f"most likely {k}": v for k, v in measured(run, given.last_tasks, 1, 0.0)[0].items()}
    write(given.out, found)


def measured(
    run: Any, tasks: int, samples: int, temperature: float = 1.0
) -> tuple[dict[str, float], list[tuple[str, str, bool]]]:
    """pass@1 on held-out tasks with its interval, length and entropy; and some answers."""
    from podium.evaluation.measure import held_out, measure

    groups = held_out(run.driver, tasks=tasks, samples=samples, max_tokens=MAX_TOKENS, temperature=temperature)
    ks = (1, samples) if samples > 1 else (1,)
    values = measure(groups, ks)
    first = [group[0].columns for group in groups[:EXAMPLES]]
    found = {f"pass@{k}": values[f"pass@{k}"].mean for k in ks}
    found |= {"low": values["pass@1"].low, "high": values["pass@1"].high}
    found |= {name: values[name].mean for name in ("length", "entropy")}
    return found, [(c["prompt"], c["text"], bool(c["correct"])) for c in first]


def said(point: dict[str, Any]) -> str:
    spent = f"{point['training']:6.1f} s of training, {point['evaluation']:5.1f} s of evaluation"
    seen = f"pass@1 {point['pass@1']:.3f}, {point['length']:.1f} tokens, entropy {point['entropy']:.2f}"
    if "train.flat_groups" in point:
        seen += f", no signal {point['train.flat_groups']:.0%}"
    if "train.sampler_gap" in point:
        seen += f", sampler gap {point['train.sampler_gap']:.1e}"
    return f"iteration {point['iteration']:>5}, {spent}: {seen}"


def write(out: Path, found: dict[str, Any]) -> None:
    part = out / f"{found['variant']}.part"
    part.write_text(json.dumps(found, indent=1))
    part.replace(out / f"{found['variant']}.json")


def reached(curve: Sequence[dict[str, Any]], goal: float) -> str:
    """After how much training pass@1 was first measured at `goal` or above."""
    point = next((p for p in curve if p["pass@1"] >= goal), None)
    return "" if point is None else f"{point['training']:.0f} s ({point['iteration']})"


def report(given: argparse.Namespace) -> str:
    """The table of all that is there so far; writes it and the figure."""
    from podium.report.chart import Series, chart, picture

    files = [given.out / f"{name}.json" for name in VARIANTS]
    runs = [json.loads(file.read_text()) for file in files if file.is_file()]
    if not runs:
        return "Nothing was measured."
    lines = [
        "| variant | rollouts an iteration | learning rate | before | after | 95 % | most likely answer | tokens | "
        f"training | iterations | to {given.goal:g} |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    curves = []
    for run in runs:
        first, end = run["curve"][0], run["curve"][-1]
        last = run.get("last", end)
        greedy = f"{last['most likely pass@1']:.3f}" if "most likely pass@1" in last else ""
        cells = [run["variant"], f"{run['tasks']} × {run['n']}", f"{run['lr']:g}"]
        cells += [f"{first['pass@1']:.3f}", f"{last['pass@1']:.3f}", f"[{last['low']:.3f}, {last['high']:.3f}]", greedy]
        cells += [f"{last['length']:.1f}", f"{end['training']:.0f} s", f"{end['iteration']}"]
        lines.append(f"| {' | '.join([*cells, reached(run['curve'], given.goal)])} |")
        minutes = [p["training"] / 60 for p in run["curve"]]
        passed, low, high = ([p[what] for p in run["curve"]] for what in ("pass@1", "low", "high"))
        curves.append(Series(run["variant"], minutes, passed, low, high))
    longest = max(max(c.x) for c in curves)
    drawn = [*curves, Series(f"{given.goal:g}", [0, longest], [given.goal] * 2, style="dashed")]
    title = "held-out pass@1, SmolLM2-135M on chain_sum"
    figure = picture([chart(title, drawn, x_label="minutes of training")], drawn)
    (given.out / "smol.svg").write_text(figure)
    table = "\n".join(lines)
    (given.out / "table.md").write_text(table + "\n")
    return table


def converted(model: str, target: Path) -> str:
    """A directory instead of a GGUF file, which takes long to read."""
    from podium import policy

    if not model.endswith(".gguf"):
        return model
    policy.load(model).save(target)
    return str(target)


def main() -> None:
    begun = time.time()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument(
        "variants", nargs="*", metavar="VARIANT", help=f"of {', '.join(VARIANTS)}; default: {' '.join(USUAL)}"
    )
    parser.add_argument("--model", required=True)
    parser.add_argument("--out", type=Path, default=Path("runs/smol"))
    parser.add_argument("--minutes", type=float, default=8.0, help="of the whole command, loading included")
    parser.add_argument("--iterations", type=int, default=100_000, help="at most")
    parser.add_argument("--enough", type=float, default=0.97, help="pass@1 at which a variant stops")
    parser.add_argument("--goal", type=float, default=0.6, help="the time to this pass@1 is reported")
    parser.add_argument("--every", type=float, default=10.0, help="seconds of training between evaluations")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", help="default: bfloat16 on a GPU, float32 on a CPU")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tasks", type=int, help="an iteration; default: the variant's")
    parser.add_argument("--n", type=int, help="rollouts a task; default: the variant's")
    for name, count in {"test-tasks": 256, "test-samples": 4, "last-tasks": 512, "last-samples": 8}.items():
        parser.add_argument(f"--{name}", type=int, default=count)
    parser.add_argument("--one", metavar="VARIANT", choices=VARIANTS, help=argparse.SUPPRESS)
    parser.add_argument("--until", type=float, help=argparse.SUPPRESS)
    given = parser.parse_args()
    given.dtype = given.dtype or ("float32" if given.device == "cpu" else "bfloat16")
    given.out.mkdir(parents=True, exist_ok=True)
    if given.one:
        train(given.one, given)
        return
    names = given.variants or list(USUAL)
    if unknown := set(names) - set(VARIANTS):
        parser.error(f"no variant {', '.join(sorted(unknown))}: there are {', '.join(VARIANTS)}")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        model = converted(given.model, folder / "model")
        print(f"model ready after {time.time() - begun:.1f} s", flush=True)
        environment = {"OMP_NUM_THREADS": "4", **os.environ}
        until = ["--model", model, "--until", str(begun + 60 * given.minutes)]  # the last of an option counts
        jobs = {}
        for name in names:
            command = [sys.executable, __file__, *sys.argv[1:], *until, "--one", name]
            errors = stack.enter_context((folder / f"{name}.err").open("w+"))
            jobs[name] = subprocess.Popen(command, env=environment, stderr=errors), errors
        while any(job.poll() is None for job, _ in jobs.values()):
            time.sleep(2)
            report(given)
        for name, (job, errors) in jobs.items():
            errors.seek(0)
            if complaint := "".join(errors.readlines()[-12:]):
                print(f"{name} ended with {job.returncode} and said: {complaint}", flush=True)
    print(f"{time.time() - begun:.0f} s in all\n{report(given)}")
    sys.exit(any(job.returncode for job, _ in jobs.values()))


if __name__ == "__main__":
    main()
