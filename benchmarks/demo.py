"""The figure of the README: what `podium train` alone does in its first minute.

podium train --seed 0 --set eval_every=10 --out runs/demo
python benchmarks/demo.py runs/demo --out docs/assets/demo.svg
"""

from __future__ import annotations

import argparse
from pathlib import Path

from podium.report.chart import Series, chart, picture
from podium.store.run_directory import RunDirectory


def figure(run: Path) -> str:
    """Right answers in training and on held-out tasks, and groups without signal."""
    lines = RunDirectory(run).metrics()
    trained = [line for line in lines if "pass@1" in line]
    measured = [line for line in lines if "eval.pass@1" in line]
    held_out = [[line[f"eval.pass@1{end}"] for line in measured] for end in ("", ".low", ".high")]
    right = [
        Series("held-out tasks, 95 %", [line["iteration"] for line in measured], *held_out),
        Series("training", [line["iteration"] for line in trained], [line["pass@1"] for line in trained], style="thin"),
    ]
    signal = Series("no signal", [x["iteration"] for x in trained], [x["flat_groups"] for x in trained], colour=2)
    charts = [
        chart("share of right answers: 12 + 45 + 7 =", right, within=(0.0, 1.0)),
        chart("groups whose answers are all equal", [signal], within=(0.0, 1.0)),
    ]
    return picture(charts, [*right, signal])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("run", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    given.out.write_text(figure(given.run))


if __name__ == "__main__":
    main()
