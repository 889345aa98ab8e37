"""Does every part act? Each method and preset is trained at its home with and without each of its parts.

    python -m tools.checks.probes [NAME …] [--show]

The weights must end more than 1 % of the update apart, and so must those of the method and of plain GRPO; what may do
nothing is listed in `EXCEPT`, with the reason. `checks/probes.json` has the distances.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import torch

from podium import PodiumError
from podium.methods.catalogue import RECIPES
from podium.sessions.probe import ProbeRow, probe

__all__ = ["EXCEPT", "excused", "names"]

RESULTS = Path(__file__).parents[2] / "checks" / "probes.json"
# By method, or method and part, why nothing happens without it.
EXCEPT: Mapping[str, str] = {
    "prefix-grouper": "computes the same gradient in less time",
    "invisible-leash": "a study that measures plain GRPO",
    "verl-effective-rank": "a study that measures plain GRPO",
    "grpo everything": "it is GRPO",
    "arrol objective.KL": "a coefficient of 0.001 acts over more updates than a home has",
    "spo shape.RejectFar": "a guard against mean ratios above 10, which do not occur in a sound run",
    "dars keep.KeepMixed": "the groups that it drops have advantages of 0: it saves time",
    "dars objective.Entropy": "a coefficient of 0.001 beside a sum over all tokens of the batch",
    "r3 advantage.DampReplayed": "the paper's factor is not known: 1, which damps nothing",
    "think-rm": "needs a judge of pairs, which no embedded world has",
}


def excused(name: str, part: str) -> str:
    """Why a part of a method may do nothing; empty: it may not."""
    slug = name.partition("@")[0]
    keys = (name, slug, f"{name} {part}", f"{slug} {part}")
    return next((EXCEPT[key] for key in keys if key in EXCEPT), "")


def names() -> Iterator[str]:
    """All methods with their presets, without those that have the numbers of an authors' run: these are made for
    another model and lengths that a small run never reaches."""
    for slug, entry in RECIPES.items():
        yield slug
        yield from (f"{slug}@{preset}" for preset in entry.presets if preset != "paper")


def idle(name: str, rows: list[ProbeRow]) -> list[str]:
    """The parts without effect that have no excuse."""
    return [row.part for row in rows if not row.acts and not excused(name, row.part)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--show", action="store_true", help="print every distance")
    given = parser.parse_args()
    torch.set_num_threads(1)
    found: dict[str, float | None] = json.loads(RESULTS.read_text("utf-8")) if given.names and RESULTS.exists() else {}
    wrong, count = [], 0
    for name in given.names or names():
        try:
            rows = probe(name)
        except PodiumError as problem:
            if not excused(name, "everything"):
                wrong.append(f"{name}: {problem}")
            continue
        for row in rows:
            count += 1
            found[f"{name} {row.part}"] = None if row.distance is None else round(min(row.distance, 1e6), 6)
            if given.show:
                print(f"{name} {row.part}: {row.distance} {row.reason}", flush=True)
        wrong += [f"{name}: {part} does nothing" for part in idle(name, rows)]
        RESULTS.write_text(json.dumps(found, indent=0, sort_keys=True) + "\n", "utf-8")
    for line in wrong:
        print(line)
    print(f"{count} parts, each left out in turn: {len(wrong)} without effect and without a reason")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
