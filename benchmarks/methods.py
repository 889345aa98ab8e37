"""What an iteration of every method of the catalogue costs beside one of GRPO without a penalty.

    OMP_NUM_THREADS=1 python benchmarks/methods.py [--rounds 2] [--iterations 2] [--json FILE] [METHOD …]

The same tasks, rollouts a task and single update for all (sums, level 2, podium/tiny), with a learning rate of 0, so
that all sample the same texts. Each measurement is a process of its own, forked from one that has loaded the model,
with GRPO's between the others'; of each iteration the least CPU time counts, since a shared machine only adds to it.
`scored` and `sampled` are tokens beside GRPO's: where they exceed 1 a method needs more passes by its nature.
A mark says that a method takes over 5 % more time and needs no more passes.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

TASKS, N, ALLOWED = 4, 8, 1.05
BASE, EVERY = "grpo without penalty", 6  # and how many measurements there are between two of GRPO's


def sized(method: Any) -> Any:
    """The method with as many rollouts a task and updates a batch as the others."""
    strategy = method.rollout
    if strategy is not None and hasattr(strategy, "n"):
        changes = {"n": N} | ({"trained": N // 2} if getattr(strategy, "trained", None) is not None else {})
        method = method.with_(rollout=strategy.replace(**changes))
    return method.with_(updates=method.updates.replace(epochs=1, mini_batches=1))


def measure(name: str, iterations: int) -> dict[str, Any]:
    """Of some iterations after a first: CPU seconds of each, tokens scored and sampled, the peak of memory in MB."""
    from podium import methods
    from podium.training.loop import iterate
    from podium.training.run import Run
    from podium.training.session import configure

    method = methods.get("grpo", kl=0.0) if name == BASE else methods.get(name)
    run = Run.make(configure(method.each(sized), world="sums", level=2, tasks=TASKS, lr=0.0))
    before, scored = memory("VmRSS"), count_scored()
    iterate(run)
    scored.clear()
    seconds, sampled = [], 0
    for _ in range(iterations):
        begun = time.process_time()
        _, line = iterate(run)
        seconds.append(time.process_time() - begun)
        sampled += line["tokens"]
    peak = memory("VmHWM") - before
    return {"seconds": seconds, "scored": sum(scored), "sampled": sampled, "memory": peak}


def count_scored() -> list[int]:
    """A list to which every forward pass of a policy outside the sampler adds its tokens."""
    from podium.policy import Policy

    found: list[int] = []
    answer, states = Policy._answer, Policy.states

    def counted(policy: Any, question: Any, *rest: Any) -> Any:
        found.append(sum(map(len, question.sequences)))
        return answer(policy, question, *rest)

    def seen(policy: Any, sequences: Sequence[Sequence[int]], **rest: Any) -> Any:
        found.append(sum(map(len, sequences)))
        return states(policy, sequences, **rest)

    Policy._answer, Policy.states = counted, seen  # type: ignore[method-assign]
    return found


def memory(what: str) -> float:
    """MB of this process: VmRSS now, VmHWM at most so far."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) / 1024 for line in file if line.startswith(what))


def apart(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What `work` returns in a process of its own."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        try:
            said: dict[str, Any] = dict(work())
        except Exception as error:
            said = {"refused": " ".join(str(error).split())[:200] or type(error).__name__}
        with os.fdopen(write, "w") as pipe:
            json.dump(said, pipe)
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return dict(json.loads(text))


def measured(names: Sequence[str], rounds: int, iterations: int) -> Iterator[tuple[str, dict[str, Any]]]:
    for _ in range(rounds):
        for number, name in enumerate(names):
            if number % EVERY == 0:
                yield BASE, apart(lambda: measure(BASE, iterations))
            yield name, apart(lambda name=name: measure(name, iterations))  # type: ignore[misc]


def least(values: Sequence[Any]) -> Any:
    """The least of some measurements; of lists, the sum of the least of each element."""
    return sum(map(min, zip(*values, strict=True))) if isinstance(values[0], list) else min(values)


def table(found: dict[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """A row a method, the cheapest first; those that cannot run on one-turn questions last."""
    best = {name: {k: least([run[k] for run in runs]) for k in runs[0]} for name, runs in found.items()}
    base = best.pop(BASE)
    rows = []
    for name, costs in best.items():
        if "refused" in costs:
            rows.append({"method": name, "refused": costs["refused"]})
            continue
        ratio = {k: costs[k] / base[k] for k in ("seconds", "scored", "sampled", "memory")}
        more = max(ratio["scored"], ratio["sampled"]) > 1.01
        slow = ratio["seconds"] > ALLOWED and not more
        rows.append({"method": name, **ratio, "more passes": more, "slow": slow})
    return sorted(rows, key=lambda row: row.get("seconds", float("inf")))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("methods", nargs="*")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--iterations", type=int, default=2)
    parser.add_argument("--json", help="write the rows there too")
    given = parser.parse_args()
    from podium import methods, policy
    from podium.training import loop, session  # noqa: F401  # so that the children find everything loaded

    loaded = policy.load("podium/tiny")
    policy.load = lambda *_, **__: loaded  # type: ignore[assignment]
    found: dict[str, list[dict[str, Any]]] = {}
    for name, costs in measured(given.methods or list(methods.CATALOGUE), given.rounds, given.iterations):
        found.setdefault(name, []).append(costs)
    rows = table(found)
    print("| method | time | scored | sampled | memory | |\n| --- | --- | --- | --- | --- | --- |")
    for row in rows:
        if "refused" in row:
            print(f"| {row['method']} | | | | | not here: {row['refused']} |")
            continue
        cells = " | ".join(f"{row[k]:.2f}" for k in ("seconds", "scored", "sampled", "memory"))
        print(f"| {row['method']} | {cells} | {'**slow**' if row['slow'] else ''} |")
    base = [sum(x["seconds"]) for x in found[BASE]]
    quiet = least([x["seconds"] for x in found[BASE]])
    slow = sum(row.get("slow", False) for row in rows)
    noise = statistics.median(base) / quiet
    print(f"\nGRPO: {quiet / given.iterations:.2f} s an iteration at best, {noise:.2f} times that in the median.")
    print(f"{slow} of {len(rows)} methods take over 5 % more time without more passes.")
    if given.json:
        with open(given.json, "w") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
