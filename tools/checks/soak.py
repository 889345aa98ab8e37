"""A long run whose memory and time per iteration must stay flat.

python -m tools.checks.soak [--iterations 400]
"""

from __future__ import annotations

import argparse
import resource
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import podium

GROWTH = 1.05  # how much larger the resident memory may be at the end than after a third of the run
SLOWDOWN = 1.25  # and the median time of an iteration


def resident() -> int:
    """Bytes of memory that the process holds now."""
    pages = int(Path("/proc/self/statm").read_text("utf-8").split()[1])
    return pages * resource.getpagesize()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--iterations", type=int, default=400)
    parser.add_argument("--method", default="r3")
    parser.add_argument("--world", default="sums")
    given = parser.parse_args()
    memory: list[int] = []
    seconds: list[float] = []

    def watch(_: Any, line: dict[str, Any]) -> None:
        memory.append(resident())
        seconds.append(sum(line["seconds"].values()) if isinstance(line.get("seconds"), dict) else 0.0)

    with tempfile.TemporaryDirectory() as folder:
        podium.train(
            given.method,
            world=given.world,
            level=1,
            tasks=4,
            iterations=given.iterations,
            eval_every=0,
            eval_tasks=2,
            out=Path(folder) / "run",
            progress=watch,
        )
    third = len(memory) // 3
    growth = max(memory[-third:]) / max(memory[third : 2 * third])
    pace = statistics.median(seconds[-third:]) / max(statistics.median(seconds[third : 2 * third]), 1e-9)
    print(f"{len(memory)} iterations: memory × {growth:.3f}, time per iteration × {pace:.2f} in the last third")
    return 0 if growth <= GROWTH and pace <= SLOWDOWN else 1


if __name__ == "__main__":
    sys.exit(main())
