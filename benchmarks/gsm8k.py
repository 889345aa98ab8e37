"""The table and the figure of docs/guide/gsm8k.md, from its two runs and six evaluations.

    python benchmarks/gsm8k.py FOLDER --out DIR

FOLDER holds the runs `sft` and `grpo`, and what `podium eval … --json` printed: `before.json`, `sft.json`, `grpo.json`
at temperature 1, and `before-greedy.json`, `sft-greedy.json`, `grpo-greedy.json` at temperature 0. What is missing is
left out. DIR gets `gsm8k.md`, `gsm8k.svg` and `gsm8k.json`.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from podium.report.chart import Series, chart, picture
from podium.store.run_directory import RunDirectory

STAGES = {"before": "as released", "sft": "after SFT", "grpo": "after GRPO"}
Lines = Sequence[Mapping[str, Any]]


def read(folder: Path) -> dict[str, Any]:
    """All measurements: of each stage its two evaluations, of each run its metrics."""
    evaluations = {
        stage: {name: json.loads(file.read_text()) for name, file in files.items() if file.is_file()}
        for stage in STAGES
        for files in [{"sampled": folder / f"{stage}.json", "greedy": folder / f"{stage}-greedy.json"}]
    }
    runs = {name: RunDirectory(folder / name).metrics() for name in ("sft", "grpo") if (folder / name).is_dir()}
    return {"evaluations": evaluations, "runs": runs}


def table(found: Mapping[str, Any]) -> str:
    rows = []
    for stage, label in STAGES.items():
        sampled, greedy = (found["evaluations"][stage].get(name, {}) for name in ("sampled", "greedy"))
        eighth = max((name for name in sampled if name.startswith("maj@")), default="")
        measures = (sampled.get("pass@1"), greedy.get("pass@1"), sampled.get("pass@8"), sampled.get(eighth))
        length = sampled.get("length", {}).get("mean")
        seconds = sum(taken(found["runs"].get(stage, [])))
        cells = [label, *map(said, measures), "" if length is None else f"{length:.0f}", f"{seconds:.0f} s"]
        rows.append(f"| {' | '.join(cells)} |")
    head = "| | pass@1 | most likely answer | pass@8 | majority of 8 | tokens | training |"
    return "\n".join([head, "| --- | --- | --- | --- | --- | --- | --- |", *rows])


def said(measure: Mapping[str, float] | None) -> str:
    return "" if measure is None else f"{measure['mean']:.3f} [{measure['low']:.3f}, {measure['high']:.3f}]"


def taken(lines: Lines) -> list[float]:
    """Seconds of sampling and training of each iteration, without evaluation."""
    return [sum(line.get("seconds", {}).get(name, 0.0) for name in ("sample", "train")) for line in lines]


def figure(found: Mapping[str, Any]) -> str:
    """Held-out pass@1 over minutes of training, both stages after one another; and what GRPO's rollouts were like."""
    stages, before = [], 0.0
    for number, (name, lines) in enumerate(found["runs"].items()):
        clock = [(before + passed) / 60 for passed in itertools.accumulate(taken(lines))]
        points = [(x, line) for x, line in zip(clock, lines, strict=True) if "eval.pass@1" in line]
        values = [[line[f"eval.pass@1{end}"] for _, line in points] for end in ("", ".low", ".high")]
        stages.append(Series(name, [x for x, _ in points], *values, colour=number))
        before += sum(taken(lines))
    charts = [chart("held-out pass@1", stages, x_label="minutes of training")]
    lines = [line for line in found["runs"].get("grpo", ()) if "reward" in line]
    for title, key in (
        ("reward", "reward"),
        ("tokens of an answer", "length"),
        ("share without signal", "flat_groups"),
    ):
        seen = [(line["iteration"], line[key]) for line in lines if key in line]
        drawn = Series("grpo", [x for x, _ in seen], [y for _, y in seen], colour=1)
        charts.append(chart(f"GRPO: {title}", [drawn]) if seen else "")
    return picture([each for each in charts if each], stages)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    found = read(given.folder)
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / "gsm8k.json").write_text(json.dumps(found, indent=1) + "\n")
    (given.out / "gsm8k.svg").write_text(figure(found))
    (given.out / "gsm8k.md").write_text(table(found) + "\n")
    print(table(found))


if __name__ == "__main__":
    main()
