"""What a verdict of the world `code` costs, alone and 64 side by side, and how steady its speedups are.

    python benchmarks/code_world.py [--verdicts 200]

Every program is written once, so that none is answered from memory.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

from podium.worlds import Code, Task

SMALL = Task("small", "double(x)", data={"function": "double", "tests": [([n], 2 * n) for n in range(6)]})


def small(number: int) -> str:
    return f"def double(x): return 2 * x  # {number}"


def hanging(number: int) -> str:
    return f"def double(x):\n    while True: pass  # {number}"


def milliseconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return 1000 * (time.perf_counter() - began)


def cost(world: Code, verdicts: int) -> None:
    print(f"first verdict, with the start of the sandbox: {milliseconds(lambda: world.grade(SMALL, small(-1))):.0f} ms")
    times = [milliseconds(lambda i=i: world.grade(SMALL, small(i))) for i in range(verdicts)]
    tenths = statistics.quantiles(times, n=10)
    print(f"one at a time: median {tenths[4]:.2f} ms, nine in ten below {tenths[8]:.2f} ms")
    used = [1000 * world._run(SMALL, small(i)).cpu_s for i in range(verdicts)]
    print(f"processor time of its process: median {statistics.median(used):.2f} ms")
    with ThreadPoolExecutor(64) as pool:
        total = milliseconds(lambda: list(pool.map(lambda i: world.grade(SMALL, small(verdicts + i)), range(verdicts))))
        print(f"64 at a time: {total / verdicts:.2f} ms per verdict")
        mixed = [hanging(i) if i % 8 == 0 else small(3 * verdicts + i) for i in range(64)]
        outcomes: list[str] = []
        total = milliseconds(
            lambda: outcomes.extend(f.info["outcome"] for f in pool.map(lambda text: world.grade(SMALL, text), mixed))
        )
        counts = f"{outcomes.count('timeout')} timeouts, {outcomes.count('right')} right"
        print(f"64 at a time, 8 of them hang: {total / 1000:.1f} s; {counts}")


def levels(count: int) -> None:
    print("level  verdict (ms)  speedup of the styles, median (lowest to highest)")
    for level in Code.levels:
        with closing(Code(level=level)) as world:
            tasks = [world.task(i) for i in range(count)]
            world.grade(SMALL, small(0))
            speedups: dict[str, list[float]] = {style: [] for style in world.styles}
            times = []
            for task in tasks:
                for style, measured in speedups.items():
                    began = time.perf_counter()
                    judged = world._run(task, world.solve(task, style))
                    times.append(1000 * (time.perf_counter() - began))
                    assert judged.outcome == "right"
                    measured.append(world.grade(task, world.solve(task, style)).info["speedup"])
            shown = [f"{s} {statistics.median(v):.2f} ({min(v):.2f} to {max(v):.2f})" for s, v in speedups.items()]
            print(f"{level:5}  {statistics.median(times):12.1f}  {', '.join(shown)}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--verdicts", type=int, default=200)
    parser.add_argument("--tasks", type=int, default=40, help="of each level")
    arguments = parser.parse_args()
    with closing(Code()) as code:
        cost(code, arguments.verdicts)
    levels(arguments.tasks)
