"""Does every part act? Each method is trained at its home with and without each of its parts.

    python -m tools.checks.probes [NAME …] [--presets] [--small] [--processes 2] [--device cpu]

The weights must end more than 1 % of the update apart, and so must those of the method and of what it extends. What may
do nothing is listed in `EXCEPT`, with the reason. `checks/probes.json` has the distances.

With `--presets` each preset is compared with its method, and only those parts of it are left out that the method has
not, or has with other settings: what the others do is known. `--only-presets` leaves the methods themselves out.

`--small` asks how much of that shows within seconds, in an iteration of four tasks a phase: the test suite repeats a
tenth of what it finds, in `checks/probes_small.json`.
"""

from __future__ import annotations

import argparse
import functools
import json
import multiprocessing
import sys
import time
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from podium import methods
from podium.analysis.probe import added_parts
from podium.core.errors import PodiumError
from podium.method import Method
from podium.methods.catalogue import RECIPES
from podium.sessions.probe import PRESET, ProbeRow, probe

__all__ = ["EXCEPT", "excused", "names", "small_probes", "small_run"]

CHECKS = Path(__file__).parents[2] / "checks"
SECONDS = 6.0  # of CPU that the probes of one method may take with --small
CLEARLY = 0.05  # of the update: what the test suite counts on, since other machines round otherwise
BAND = "as published, the penalty is constant in the policy and has no gradient; that of epo@hinge has one"
LONG_STEPS = "its steps, in tokens as published, are longer than an answer at home"
ONE_UPDATE = "one update a batch, as in that code: every ratio is 1, and no clip acts"
MEASURED = "the first phase measures success rates and trains nothing"
# By method, or method and part, why nothing happens without it.
EXCEPT: Mapping[str, str] = {
    "prefix-grouper": "computes the same gradient in less time",
    "invisible-leash": "a study that measures plain GRPO",
    "grpo everything": "it is GRPO",
    "agentflow shape.DropLongContexts": "no embedded world has such long contexts",
    "epo shape.TurnBand": BAND,
    "epo objective.BandPenalty": BAND,
    "epo memories.TurnEntropies": BAND,
    "light-if 1.objective.PolicyGradient": "ratios reach the bounds 0 and 2 only at large learning rates",
    "light-if 2.objective.PolicyGradient": "ratios reach the bounds 0 and 2 only at large learning rates",
    "one-shot-rlvr objective.KL": "a coefficient of 0.001 acts over more updates than a home has",
    "pivotrl keep.KeepPivots": "with a profile, only pivots are sampled",
    "spear annotate.MarkDegenerate": "podium/tiny does not repeat itself",
    "spear keep.DropMarked": "podium/tiny does not repeat itself",
    "spo-single-stream 0.advantage.Normalize": MEASURED,
    "spo-single-stream 0.shape.Whiten": MEASURED,
    "spo-single-stream 0.objective.PolicyGradient": MEASURED,
    "spo-single-stream 0.updates.Updates": MEASURED,
    "guru 0.objective.PolicyGradient": MEASURED,
    "guru 0.updates.Updates": MEASURED,
    "ttrv reward.AnswerEntropy": "one number per group, as released, which the baseline of the group cancels",
    "arrol objective.KL": "a coefficient of 0.001 acts over more updates than a home has",
    "likelihood-reward objective.KL": "a token mean with a coefficient of 0.001 beside sums over whole answers",
    "causalrm 1.annotate.NoiseAnchors": "the corrected loss needs the rates that it estimates",
    "gf-screen rollout.Choose": "one decision for each crop, as Sample(n=1) has it, which stands in for it",
    "spo shape.RejectFar": "a guard against mean ratios above 10, which do not occur in a sound run",
    "dars keep.KeepMixed": "the groups that it drops have advantages of 0: it saves time",
    "dars objective.Entropy": "a coefficient of 0.001 beside a sum over all tokens of the batch",
    "prl@orm advantage.SuffixSums": LONG_STEPS,
    "prl@llama advantage.SuffixSums": LONG_STEPS,
    "prl@1.5b advantage.SuffixSums": LONG_STEPS,
    "hicra@listed annotate.MarkPhrases": "podium/tiny writes none of the published phrases, and this preset mines none",
    "opsd@ema preset": "in as few updates as a home has, an average over many is near the frozen teacher (0.8 %)",
    "gspo@token preset": "with one advantage per rollout it is GSPO, number for number",
    "r3 advantage.DampReplayed": "the paper's factor is not known: 1, which damps nothing",
}


def excused(name: str, part: str) -> str:
    """Why a part of a method may do nothing; empty: it may not."""
    slug, _, preset = name.partition("@")
    keys = (name, slug, f"{name} {part}", f"{slug} {part}")
    listed = next((EXCEPT[key] for key in keys if key in EXCEPT), "")
    if not listed and preset and part == "objective.PolicyGradient" and methods.get(name).main().updates.single:
        return ONE_UPDATE
    return listed


def names(presets: bool = False) -> Iterator[str]:
    """All methods; with their presets, without those that have the numbers of an authors' run: these are made for
    another model and lengths that a small run never reaches. Nor those that only name what is the default, or differ
    from it in the authors' numbers for another model."""
    for slug, entry in RECIPES.items():
        if entry.kind == "method" and not excused(slug, ""):
            yield slug
            found = (f"{slug}@{preset}" for preset in entry.presets if presets and preset != "paper")
            yield from (name for name in found if _structure(name) != _structure(slug))


def _structure(name: str) -> Method:
    """A method without its name and without the numbers of its authors."""
    return methods.get(name).replace(name="").each(lambda leaf: leaf.replace(name="", protocol=None))


def small_run(name: str) -> dict[str, int]:
    """The settings of `--small`: four tasks, and an iteration for each phase of the method."""
    return {"tasks": 4, "iterations": len(list(methods.get(name).leaves()))}


def small_probes(slug: str) -> list[str]:
    """The rows of a method that a small run clearly tells apart."""
    found: dict[str, dict[str, Any]] = json.loads((CHECKS / "probes_small.json").read_text("utf-8"))
    return [part for part, row in found.get(slug, {}).items() if (row["distance"] or 0) > CLEARLY]


class _Hurry:
    """All parts, as long as there is time, from when the first one is asked for: the method's own run is ready then."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.end = seconds, 0.0

    def __contains__(self, part: object) -> bool:
        self.end = self.end or time.process_time() + self.seconds
        return time.process_time() < self.end


def measure(name: str, device: str, small: bool) -> tuple[str, dict[str, dict[str, Any]], str]:
    """The name of a method, what each part of it does, by the part's name, and why nothing could be measured."""
    import torch

    torch.set_num_threads(1)
    begun, found = time.process_time(), dict[str, dict[str, Any]]()

    def note(row: ProbeRow) -> None:
        nonlocal begun
        known = {"distance": None, "reason": row.reason} if row.distance is None else {"distance": _rounded(row)}
        found[row.part] = {**known, "iterations": row.iterations, "seconds": round(time.process_time() - begun, 1)}
        begun = time.process_time()

    slug, _, preset = name.partition("@")
    only = {PRESET, *added_parts(methods.get(name), methods.get(slug))} if preset else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            if small:
                probe(name, progress=note, device=device, only=only or _Hurry(SECONDS), **small_run(name))
            else:
                probe(name, progress=note, device=device, only=only)
        except PodiumError as problem:
            return name, found, str(problem)
        except Exception as problem:  # a fault of the method: the other runs go on
            return name, found, f"{type(problem).__name__}: {problem}"
    return name, found, ""


def _rounded(row: ProbeRow) -> float:
    assert row.distance is not None
    return round(min(row.distance, 1e6), 6)


def idle(name: str, rows: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """What has no effect and no excuse, in words."""
    for part, row in rows.items():
        if not excused(name, part):
            if row["distance"] is None and part == PRESET:
                continue  # its method cannot be trained at its home: they differ
            if row["distance"] is None:
                yield f"{name}: without {part} it cannot be trained: {row['reason']}"
            elif row["distance"] <= 0.01:
                yield f"{name}: {part} does nothing ({row['distance']:.2%} of the update)"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--presets", action="store_true", help="all presets, too")
    parser.add_argument("--only-presets", action="store_true", help="the presets alone")
    parser.add_argument("--small", action="store_true", help="an iteration of four tasks a phase, for the test suite")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    given = parser.parse_args()
    out = CHECKS / ("probes_small.json" if given.small else "probes.json")
    chosen = given.names or list(names(given.presets or given.only_presets))
    if given.only_presets:
        chosen = [name for name in chosen if "@" in name]
    known: dict[str, Any] = json.loads(out.read_text("utf-8")) if out.exists() else {}
    valid = set(names(presets=True))
    found = {name: rows for name, rows in known.items() if name in valid}
    wrong: list[str] = []
    with multiprocessing.get_context("spawn").Pool(
        given.processes, maxtasksperchild=None if given.small else 8
    ) as pool:
        work = functools.partial(measure, device=given.device, small=given.small)
        for name, rows, problem in pool.imap_unordered(work, _longest_first(chosen)[:: -1 if given.small else 1]):
            found[name] = rows
            faults = [*idle(name, found[name]), *([f"{name}: {problem}"] if problem else [])]
            wrong += faults
            print(
                f"{name}: {len(found[name])} parts" if given.small else "\n".join(faults) or f"{name}: fine", flush=True
            )
            out.write_text(json.dumps(found, indent=0, sort_keys=True) + "\n", "utf-8")
    count = sum(len(found[name]) for name in chosen)
    if given.small:
        clear = sum((row["distance"] or 0) > CLEARLY for name in chosen for row in found[name].values())
        print(f"{clear} of {count} parts show in an iteration of four tasks a phase")
        return 0
    print(f"{count} parts of {len(chosen)} methods, each left out in turn: {len(wrong)} without effect and reason")
    return 1 if wrong else 0


def _longest_first(chosen: list[str]) -> list[str]:
    """Long runs first, so that no process is left alone with one at the end."""
    homes: dict[str, Any] = json.loads((CHECKS / "homes.json").read_text("utf-8"))
    return sorted(chosen, key=lambda name: -homes.get(name.partition("@")[0], {}).get("seconds", 0))


if __name__ == "__main__":
    sys.exit(main())
