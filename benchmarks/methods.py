"""What an iteration of every method of the catalogue costs beside one of GRPO without a penalty.

    OMP_NUM_THREADS=1 python benchmarks/methods.py [--rounds 2] [--iterations 2] [--json FILE] [METHOD …]

The same tasks, rollouts a task and single update for all (sums, level 2, podium/tiny), with a learning rate of 0, so
that all sample the same texts. `updates` is the time with as many optimiser steps and epochs a batch as the recipe has.
Each method is measured in a process of its own, its iterations in turn with GRPO's; of each iteration the least CPU
time counts, since a shared machine only adds to it. GRPO beside itself shows the noise.
`scored` and `sampled` are tokens beside GRPO's: where they exceed 1 a method needs more passes by its nature.
A mark says that a method takes over 5 % more time and needs no more passes.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

TASKS, N, ALLOWED = 4, 8, 1.05
BASE = "grpo without penalty"  # GRPO beside itself: what is noise


def sized(method: Any, published: bool = False) -> Any:
    """The method with as many rollouts a task as the others, and as many updates a batch unless `published`."""
    strategy = method.rollout
    if strategy is not None and hasattr(strategy, "n"):
        changes = {"n": N} | ({"trained": N // 2} if isinstance(getattr(strategy, "trained", None), int) else {})
        method = method.with_(rollout=strategy.replace(**changes))
    return method if published else method.with_(updates=method.updates.replace(epochs=1, mini_batches=1))


def measure(name: str, iterations: int) -> dict[str, Any]:
    """Costs of some iterations of a method and of GRPO in turn, after a first one of each; the peak of memory in MB."""
    from podium import methods
    from podium.sessions.train import configure
    from podium.training.build import build_run
    from podium.training.run import Run

    def made(method: Any, published: bool = False) -> Run:
        same = method.each(partial(sized, published=published))
        return build_run(configure(same, world="sums", level=2, tasks=TASKS, lr=0.0))

    scored = count_scored()
    plain = methods.get("grpo", kl=0.0)
    method = plain if name == BASE else methods.get(name)
    own, base, published = made(method), made(plain), made(method, published=True)
    before = memory("VmRSS")
    cost(own, scored)
    peak = memory("VmHWM") - before
    cost(base, scored)
    cost(published, scored)
    turns = [[cost(run, scored) for run in (base, own, published)] for _ in range(iterations)]
    return {"memory": peak, **dict(zip(("base", "own", "published"), map(list, zip(*turns, strict=True)), strict=True))}


def cost(run: Any, scored: list[int]) -> dict[str, float]:
    """CPU seconds and tokens scored and sampled of one iteration."""
    from podium.training.loop import iterate

    scored.clear()
    begun = time.process_time()
    _, line = iterate(run)
    return {"seconds": time.process_time() - begun, "scored": sum(scored), "sampled": line["tokens"]}


def count_scored() -> list[int]:
    """A list to which every forward pass of a policy outside the sampler adds its tokens."""
    from podium.policy import Policy

    found: list[int] = []
    answer, states = Policy._evaluate, Policy.states

    def counted(policy: Any, question: Any, *rest: Any) -> Any:
        found.append(sum(map(len, question.sequences)))
        return answer(policy, question, *rest)

    def seen(policy: Any, sequences: Sequence[Sequence[int]], **rest: Any) -> Any:
        found.append(sum(map(len, sequences)))
        return states(policy, sequences, **rest)

    Policy._evaluate, Policy.states = counted, seen  # type: ignore[method-assign]
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


def row(name: str, runs: Sequence[dict[str, Any]], memory_of_base: float) -> dict[str, Any]:
    """A method beside GRPO: of time the least of each iteration counts, in both as often measured."""
    if any("refused" in run for run in runs):
        return {"method": name, "refused": next(run["refused"] for run in runs if "refused" in run)}

    def least(who: str, what: str) -> float:
        return sum(map(min, zip(*([x[what] for x in run[who]] for run in runs), strict=True)))

    ratio = {what: least("own", what) / least("base", what) for what in ("seconds", "scored", "sampled")}
    ratio["updates"] = least("published", "seconds") / least("base", "seconds")
    more = max(ratio["scored"], ratio["sampled"]) > 1.01
    peak = min(run["memory"] for run in runs) / memory_of_base
    return {"method": name, **ratio, "memory": peak, "slow": ratio["seconds"] > ALLOWED and not more}


def table(rows: Sequence[dict[str, Any]]) -> str:
    lines = ["| method | time | scored | sampled | memory | updates | |", "| --- | --- | --- | --- | --- | --- | --- |"]
    for cells in sorted(rows, key=lambda row: row.get("seconds", float("inf"))):
        if "refused" in cells:
            lines.append(f"| {cells['method']} | | | | | | not on these tasks |")
            continue
        numbers = " | ".join(f"{cells[k]:.2f}" for k in ("seconds", "scored", "sampled", "memory", "updates"))
        lines.append(f"| {cells['method']} | {numbers} | {'over 5 %' if cells['slow'] else ''} |")
    slow = sum(cells.get("slow", False) for cells in rows)
    return "\n".join([*lines, f"\n{slow} of {len(rows)} take over 5 % more time without more passes."])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("methods", nargs="*")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--iterations", type=int, default=2)
    parser.add_argument("--json", help="write the rows there too, after each round")
    given = parser.parse_args()
    from podium import methods, policy
    from podium.sessions import train as session  # noqa: F401  # so that the children find everything loaded
    from podium.training import loop  # noqa: F401  # so that the children find everything loaded

    loaded = policy.load("podium/tiny")
    policy.load = lambda *_, **__: loaded  # type: ignore[assignment]
    names, found = (BASE, *(given.methods or methods.CATALOGUE)), {}
    for number in range(given.rounds):
        for name in names:
            found.setdefault(name, []).append(apart(partial(measure, name, given.iterations)))
            print(f"round {number + 1} of {given.rounds}: {name}", end="\x1b[K\r", file=sys.stderr, flush=True)
        usual = min(run["memory"] for run in found[BASE])
        rows = [row(name, found[name], usual) for name in names]
        if given.json:  # a long measurement may be stopped: what there is so far
            Path(given.json).write_text(json.dumps(rows, indent=1))
    print(table(rows))


if __name__ == "__main__":
    main()
