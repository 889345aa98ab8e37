"""Train the embedded model with GRPO on sums of three numbers, and measure it on held-out tasks before and after.

python examples/quickstart.py
"""

from __future__ import annotations

import podium


def main(iterations: int = 60, out: str | None = None) -> None:
    result = podium.train("grpo", world="sums", iterations=iterations, out=out)
    before, *_, after = result.evaluations
    print(f"held-out pass@1: {before['eval.pass@1']:.3f} -> {after['eval.pass@1']:.3f}")
    print(f"the run is in {result.path}: config.yaml, metrics.jsonl, rollouts/, checkpoints/")


if __name__ == "__main__":
    main()
