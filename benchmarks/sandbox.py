"""What grading in a sandbox costs: the time of a verdict beside one in this process, and of verdicts that hang.

    python benchmarks/sandbox.py [--verdicts 2000] [--callers 64]

A caller is a thread that asks for one verdict after another. What a verdict costs on top is the time of all of them,
less that of as many in this process, divided by their number.
"""

from __future__ import annotations

import argparse
import importlib
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from podium import worlds
from podium.sandbox import Limits, Workers
from podium.sandbox.graders import LIMITS, gym_workers, math_workers, pickled

GOAL_MS = 2.0


def seconds(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def cost(name: str, workers: Workers, arguments: tuple[Any, ...], here: Callable[[], Any], args: Any) -> list[str]:
    """The lines of a grader."""
    start = seconds(workers.sandbox.start)
    first = seconds(lambda: workers.call(*arguments))
    here()
    alone = seconds(lambda: [here() for _ in range(args.verdicts)]) / args.verdicts
    lines = [f"{name}: the sandbox starts in {start:.2f} s, its first process in {1000 * first:.1f} ms"]
    for callers in (1, args.callers):

        def run(callers: int = callers) -> None:
            with ThreadPoolExecutor(callers) as pool:
                outcomes = list(pool.map(lambda _: workers.call(*arguments), range(args.verdicts)))
            assert all(outcome.value for outcome in outcomes)

        run()
        on_top = 1000 * (min(seconds(run) for _ in range(3)) / args.verdicts - alone)
        verdict = "" if on_top < GOAL_MS else f", over the goal of {GOAL_MS:g} ms"
        who = "1 caller" if callers == 1 else f"{callers} callers"
        lines.append(f"{name}: {who}, {1000 * alone:.2f} ms here, {on_top:+.2f} ms in the sandbox{verdict}")
    workers.close()
    return lines


def hanging(callers: int, wall_s: float = 5.0) -> str:
    """How long it takes until verdicts that hang have all been given up."""
    workers = math_workers(Limits(wall_s=wall_s, cpu_s=wall_s))
    workers.sandbox.start()
    with ThreadPoolExecutor(callers) as pool:
        began = time.perf_counter()
        outcomes = list(pool.map(lambda _: workers.call("1", "9^{9^{9}}"), range(callers)))
        took = time.perf_counter() - began
    workers.close()
    failed = sum(outcome.failure in ("timeout", "memory") for outcome in outcomes)
    return f"hanging: {failed} of {callers} verdicts given up after {took:.1f} s, with a limit of {wall_s:g} s each"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--verdicts", type=int, default=2000)
    parser.add_argument("--callers", type=int, default=64)
    args = parser.parse_args()
    world = worlds.Gym(task_name="chain_sum")
    entry = world.task(0).data["entry"]
    gym, settings = gym_workers(LIMITS), pickled(("chain_sum", {}, 100))
    gym.prepare("podium.sandbox.graders:prepare_gym", settings)
    arguments = settings, entry["answer"], pickled(entry)
    print(*cost("gym", gym, arguments, lambda: world.dataset.score_answer(entry["answer"], entry), args), sep="\n")
    math_verify = importlib.import_module("math_verify")

    def equal() -> bool:
        sides = [math_verify.parse(f"${text}$", parsing_timeout=None) for text in ("\\frac{1}{2}", "0.5")]
        return math_verify.verify(*sides, timeout_seconds=None)

    print(*cost("math", math_workers(LIMITS), ("\\frac{1}{2}", "0.5"), equal, args), sep="\n")
    print(hanging(args.callers))


if __name__ == "__main__":
    importlib.import_module("logging").disable()  # math-verify warns about its time limits
    main()
