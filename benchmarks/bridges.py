"""Episodes in TextWorld and ScienceWorld, each to its end: how they ended, and what is left running afterwards.

    python benchmarks/bridges.py --model MODEL [--worlds textworld:coin scienceworld:find-living-thing]
        [--tasks 16] [--samples 4] [--live 8] [--turns 8] [--tokens 12] [--temperature 0.5] [--kill 0]

`--kill N` ends the process of an episode that is under way, N times, as a crash would.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

from podium import worlds
from podium.collect.driver import Driver
from podium.core.build import Rollout
from podium.policy import load
from podium.protocols.sampling import Sampling
from podium.sampler.local import LocalSampler
from podium.strategies import Draw, Sample
from podium.strategies.requests import TaskRequest
from podium.worlds.adventure import Adventure


def children(parent: int) -> list[int]:
    """The processes that a process has started, and theirs."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        if int(fields[1]) == parent and fields[0] != "Z":
            pid = int(stat.parent.name)
            found += [pid, *children(pid)]
    return found


def counts() -> dict[str, int]:
    """What a leak would show in."""
    folders = Path(tempfile.gettempdir()).glob("podium-*")
    return {
        "processes": len(children(os.getpid())),
        "threads": threading.active_count(),
        "files": len(os.listdir("/proc/self/fd")),
        "folders": len(list(folders)),
    }


def crashes(times: int, over: threading.Event) -> None:
    """End an engine now and then."""
    rng = random.Random(0)
    while times and not over.wait(2.0):
        # The spare engine, which makes the tasks, was started first.
        running = sorted(pid for pid in children(os.getpid()))[1:]
        if running:
            os.kill(rng.choice(running), signal.SIGKILL)
            times -= 1


def play(driver: Driver, world: Adventure, chosen: argparse.Namespace) -> list[Rollout]:
    """`samples` episodes of each task."""
    sampling = Sampling(max_tokens=chosen.tokens, temperature=chosen.temperature)
    requests = [TaskRequest(world.task(i), i, sampling, (0, i)) for i in range(chosen.tasks)]
    strategy = Sample(n=chosen.samples, draw=Draw(temperature=chosen.temperature))
    plans = [strategy.plan(request) for request in requests]
    over = threading.Event()
    vandal = threading.Thread(target=crashes, args=(chosen.kill, over))
    vandal.start()
    try:
        return [rollout for group in driver.collect(plans) for rollout in group]
    finally:
        over.set()
        vandal.join()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--worlds", nargs="+", default=["textworld:coin", "scienceworld:find-living-thing"])
    for name, value in {"tasks": 16, "samples": 4, "live": 8, "turns": 8, "tokens": 12, "kill": 0}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--temperature", type=float, default=0.5)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as own:
        tempfile.tempdir = own  # where nobody else leaves anything
        measure(chosen)


def measure(chosen: argparse.Namespace) -> None:
    policy = load(chosen.model)
    for name in chosen.worlds:
        begun, before, most = time.monotonic(), counts(), 0
        world = worlds.get(name, max_turns=chosen.turns, engines=chosen.live)
        assert isinstance(world, Adventure)
        try:
            rollouts = play(Driver(LocalSampler(policy), world, follow_up=policy.follow_up), world, chosen)
            most = counts()["processes"]
        finally:
            world.close()
        after = counts()
        ended = Counter("won" if r.columns["correct"] else r.columns["stop"] for r in rollouts)
        valid = [bool(turn.columns["valid"]) for r in rollouts for turn in r.turns]
        score = sum(r.columns["score"] for r in rollouts) / len(rollouts)
        print(f"{name}: {len(rollouts)} episodes in {time.monotonic() - begun:.0f} s, {most} processes at the most")
        print(f"  ended by: {', '.join(f'{reason} {n}' for reason, n in ended.most_common())}")
        print(f"  mean score {score:.3f}, {len(valid) / len(rollouts):.1f} turns, {sum(valid) / len(valid):.0%} valid")
        for reason, n in Counter(r.columns["failure"] for r in rollouts if r.columns["failure"]).most_common(3):
            print(f"  {n} failed: {reason}")
        print(f"  before {before}\n  after  {after}")


if __name__ == "__main__":
    main()
