"""Does every part act? Each preset is trained with and without each of its parts; the weights must differ.

    python -m tools.checks.probes [SLUG …] [--show]

A part that changes nothing in a short run on an embedded world is listed. Their number may not grow: the last result is
kept in `checks/probes.json`, and the check fails where there are parts that acted before and act no more.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import torch

import podium
from podium import Method, PodiumError
from podium import policy as policies
from podium.worlds import World
from tests.methods.catalogue import NAMES, Laps, fitting, small, tiny

RESULTS = Path(__file__).parents[2] / "checks" / "probes.json"
LISTS = ("annotate", "reward", "keep", "shape", "objective")


def without(method: Method) -> Iterator[tuple[str, Method]]:
    """The method without each of the parts that can be left out, by the part's name."""
    for stage in LISTS:
        parts = getattr(method, stage)
        for place, part in enumerate(parts):
            rest = (*parts[:place], *parts[place + 1 :])
            if stage != "objective" or rest:
                yield f"{stage}.{type(part).__name__}", method.with_(**{stage: rest})


def weights(method: Method, world: World) -> str:
    """A hash of the policy that a short run ends with; why it cannot be run, if it cannot."""
    model = tiny()  # before `load` is replaced: it is loaded by it
    with tempfile.TemporaryDirectory() as folder, patch.object(policies, "load", lambda *_, **__: model.copy()):
        try:
            result = podium.train(
                method, world=world, tasks=6, iterations=3, eval_every=0, eval_tasks=1, out=Path(folder) / "run"
            )
        except PodiumError as problem:
            return f"refused: {problem}"
        file = max((result.path / "checkpoints").glob("*")) / "policy" / "model.safetensors"
        return hashlib.sha256(file.read_bytes()).hexdigest()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("slugs", nargs="*")
    parser.add_argument("--show", action="store_true", help="print the parts that made no difference")
    given = parser.parse_args()
    torch.set_num_threads(1)
    before: dict[str, bool] = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {}
    acts: dict[str, bool] = {}
    for name in NAMES:
        if given.slugs and name.partition("@")[0] not in given.slugs:
            continue
        method = small(name)
        world = fitting(method, [Laps(level=2)])
        if world is None or len(list(method.leaves())) > 1:
            continue  # no embedded world fits; methods in phases are made of methods that are probed on their own
        whole = weights(method, world)
        for part, rest in without(method):
            acts[f"{name} {part}"] = weights(rest, world) != whole
            if given.show and not acts[f"{name} {part}"]:
                print(f"{name}: {part} changes nothing", flush=True)
    lost = sorted(key for key, acting in acts.items() if not acting and before.get(key, False))
    if not given.slugs:
        RESULTS.write_text(json.dumps(acts, indent=0, sort_keys=True) + "\n", "utf-8")
    for key in lost:
        print(f"acts no more: {key}")
    print(f"{sum(acts.values())} of {len(acts)} parts change the weights; {len(lost)} that did before do not")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
