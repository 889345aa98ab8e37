"""Read a finished run with plain tools: metrics.jsonl line by line, rollouts with pyarrow.

python examples/read_a_run.py runs/x
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq


def main(run: str) -> None:
    for line in (Path(run) / "metrics.jsonl").read_text("utf-8").splitlines():
        values = json.loads(line)
        print(f"iteration {values['iteration']:>3}  reward {values.get('reward', float('nan')):.3f}")
    *_, last = sorted((Path(run) / "rollouts").glob("*.parquet"))
    table = pq.read_table(last, columns=["prompt", "text", "reward"])
    best = table.sort_by([("reward", "descending")]).slice(0, 1).to_pylist()[0]
    print(
        f"{table.num_rows} rollouts in {last.name}, mean reward {pc.mean(table['reward']).as_py():.3f}; the best one:"
    )
    print(best["prompt"], best["text"], sep="\n")


if __name__ == "__main__":
    main(sys.argv[1])
