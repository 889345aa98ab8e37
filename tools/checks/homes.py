"""Does every method train by its name? Each slug at its home: it must end well, every part must act, and it must learn.

    python -m tools.checks.homes [SLUG …] [--processes 2] [--device cpu]

The result of each is kept in `checks/homes.json`: held-out pass@1 before and after (or what `LEARNT` names), seconds of
CPU, what never acted, and what was warned of.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[2] / "checks" / "homes.json"
LONGEST = 60.0  # seconds of CPU that a home run may take
# What may never act at home, and why.
GUARDS = {
    ("cispo", "objective.clip"): "weights above 5 are rare at small learning rates",
    ("scalerl", "objective.clip"): "weights above 5 are rare at small learning rates",
    ("light-if", "objective.clip"): "ratios reach 0 or 2 only at large learning rates",
    ("agentflow", "shape.DropLongContexts"): "no embedded world has such long contexts",
    ("iterresearch-eapo", "objective.clip"): "one ratio per round, a mean over its tokens, stays within the bounds",
    ("epo", "objective.BandPenalty"): "as published, it is constant in the policy and has no gradient",
    ("pivotrl", "keep.KeepPivots"): "with a profile, only pivots are sampled",
    ("spear", "annotate.MarkDegenerate"): "podium/tiny does not repeat itself",
    ("spear", "keep.DropMarked"): "podium/tiny does not repeat itself",
}
# Methods that do not train on the world's tasks, and the metric of theirs that must rise instead: from its mean over
# the first third of the iterations to that over the last third.
LEARNT = {"knowrl": "self.intrinsic"}
LEFT_OUT = {"clip-bias-spurious": "a study of random rewards"}


def train_at_home(name: str, device: str = "cpu") -> dict[str, Any]:
    """One run of a method at its home, in words and numbers."""
    import torch

    from podium.core.activity import activity
    from podium.core.errors import PodiumError
    from podium.sessions.train import configure, train

    torch.set_num_threads(1)
    begun, notes = time.process_time(), list[str]()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            config = configure(name, eval_every=0, eval_tasks=128, checkpoint_every=0, device=device)
            result = train(config, out=Path(folder) / "run", tell=notes.append)
        except PodiumError as problem:
            return {"refused": str(problem)}
        except Exception as problem:  # a fault of the method: the other runs go on
            return {"failed": f"{type(problem).__name__}: {problem}"}
        counts = activity(result.metrics)
        if name in LEARNT:
            first, last = _thirds([row[LEARNT[name]] for row in result.metrics if LEARNT[name] in row])
        else:
            first, last = (result.evaluations[place]["eval.pass@1"] for place in (0, -1))
        return {
            "before": round(first, 3),
            "after": round(last, 3),
            "seconds": round(time.process_time() - begun, 1),
            "iterations": result.metrics[-1]["iteration"],
            "idle": [part for part, (acted, _) in counts.items() if not acted],
            "warned": [note for note in notes if note.startswith("warning")],
        }


def _thirds(values: list[float]) -> tuple[float, float]:
    """The means of the first and of the last third."""
    count = max(len(values) // 3, 1)
    return sum(values[:count]) / count, sum(values[-count:]) / count


def problems(name: str, row: dict[str, Any]) -> list[str]:
    """What is wrong with a run, in words."""
    for key in ("refused", "failed"):
        if key in row:
            return [f"{key}: {row[key]}"]
    return [
        *(f"never acted: {part}" for part in row["idle"] if (name, part) not in GUARDS),
        *row["warned"],
        *([] if row["after"] > row["before"] else [f"did not learn: {row['before']} to {row['after']}"]),
        *([] if row["seconds"] <= LONGEST else [f"took {row['seconds']} s"]),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    from podium.methods import RECIPES

    names = given.names or [slug for slug, entry in RECIPES.items() if entry.kind == "method" and slug not in LEFT_OUT]
    rows: dict[str, Any] = json.loads(given.out.read_text("utf-8")) if given.out.exists() else {}
    with multiprocessing.get_context("spawn").Pool(given.processes, maxtasksperchild=8) as pool:
        jobs = {name: pool.apply_async(train_at_home, (name, given.device)) for name in names}
        for name, job in jobs.items():
            rows[name] = job.get()
            found = problems(name, rows[name])
            print(f"{name}: {'; '.join(found) if found else 'fine'}", flush=True)
            given.out.write_text(json.dumps(rows, indent=0, sort_keys=True) + "\n", "utf-8")
    bad = [name for name in names if problems(name, rows[name])]
    left_out = ", ".join(f"{name} ({reason})" for name, reason in LEFT_OUT.items())
    print(f"left out: {left_out}")
    print(f"{len(names) - len(bad)} of {len(names)} methods train at home, learn, and have no part that never acted")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
