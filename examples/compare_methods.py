"""Two methods against each other: the same tasks, the same sampling noise, the same number of sampled tokens.

python examples/compare_methods.py
"""

from __future__ import annotations

import podium


def main(iterations: int = 30, seeds: int = 3, out: str = "runs/compare-example") -> None:
    comparison = podium.compare(
        ["grpo", "rloo"], seeds=seeds, world="sums", level=2, iterations=iterations, eval_every=0, out=out
    )
    for row in comparison.rows:
        print(f"{row.name}: held-out pass@1 {row.mean:.3f} over {len(row.finals)} seeds")


if __name__ == "__main__":
    main()
