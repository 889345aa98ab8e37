"""What shared beginnings and pruning save: tokens through the model, and the time of a step.

    OMP_NUM_THREADS=1 python benchmarks/forest.py [--rounds 5] [--tasks 24]

First, for each strategy that forks, the tokens that were sampled and encoded against the distinct tokens of its forest
and prompts (1.0 is the least there can be, 1.1 what is allowed), and against the same rollouts sampled one by one. Then
one iteration of ARRoL at its defaults, past its cold start, against GRPO on the same tasks, in turns: answers have some
fifty tokens here instead of thousands, so the head is asked after a tenth of them. Time is the process's own, so that
it means the same on a busy machine.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

from podium import methods, worlds
from podium.collect.driver import distinct_tokens
from podium.core.build import Rollout
from podium.method import Method
from podium.sessions.train import configure
from podium.strategies import Cutpoints, Fork, Search, TopEntropy, Tree
from podium.training.build import build_run
from podium.training.loop import iterate
from podium.training.run import Run

STRATEGIES: dict[str, Any] = {
    "tree (6, 6)": Tree(n=6, branches=(6,), window=12),
    "tree (4, 4, 4)": Tree(n=4, branches=(4, 4), window=8),
    "cut points": Fork(n=2, places=Cutpoints(0.9, 2), branches=9, purpose="baseline"),
    "high entropy": Fork(n=12, places=TopEntropy(2), branches=2),
    "divergence": methods.rose().rollout,
    "search": Search(n=8, width=8, max_depth=8),
}


def forests(world: worlds.World, tasks: int) -> None:
    print(f"{'strategy':16}{'rollouts':>9}{'sampled':>9}{'encoded':>9}{'distinct':>9}{'ratio':>7}{'one by one':>12}")
    for name, strategy in STRATEGIES.items():
        run = made(methods.grpo().with_(rollout=strategy, advantage=methods.grpo().advantage), world, tasks)
        method = run.begin()
        before = run.driver.spent
        rollouts = run.collect(method, run.requests(method, tasks))
        sampled, encoded = (after - b for after, b in zip(run.driver.spent, before, strict=True))
        once, alone = least(rollouts), sum(len(t.context) + len(t.ids) for r in rollouts for t in r.turns)
        ratio, saved = (sampled + encoded) / once, alone / (sampled + encoded)
        print(f"{name:16}{len(rollouts):9}{sampled:9}{encoded:9}{once:9}{ratio:7.2f}{saved:11.2f}×")
        assert ratio <= 1.1, f"{name} sends tokens through the model more than once"


def least(rollouts: list[Rollout]) -> int:
    """Prompts once, every segment once, and what led nowhere."""
    turns = [turn for r in rollouts for turn in r.turns]
    own = sum(origin == "policy" for turn in turns for origin in turn.origin or ())
    side = sum(int(r.columns.get("side_tokens", 0)) for r in rollouts)
    return distinct_tokens([tuple(turn.context) for turn in turns]) + own + side


def pruning(world: worlds.World, tasks: int, rounds: int) -> None:
    detect = 5
    plain, pruned = methods.arrol(n=16, cold=0, keep=1.0, detect=detect), methods.arrol(n=16, cold=0, detect=detect)
    runs = {"grpo": made(methods.grpo(n=16), world, tasks), "arrol, keep 1": made(plain, world, tasks)}
    runs["arrol"] = made(pruned, world, tasks)
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    spent: dict[str, int] = {}
    for _ in range(rounds + 1):  # the first is for warming up
        for name, run in runs.items():
            begun = time.process_time()
            _, line = iterate(run)
            seconds[name].append(time.process_time() - begun)
            spent[name] = line["tokens.sampled"] + line["tokens.encoded"]
    print(f"\n{'one iteration':16}{'seconds':>9}{'tokens':>9}")
    medians = {name: statistics.median(times[1:]) for name, times in seconds.items()}
    for name, median in medians.items():
        print(f"{name:16}{median:9.3f}{spent[name]:9}")
    print(f"pruning saves {1 - medians['arrol'] / medians['grpo']:.0%} of the time of GRPO's step")


def made(method: Method, world: worlds.World, tasks: int) -> Run:
    return build_run(configure(method, world=world, tasks=tasks, iterations=1000))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tasks", type=int, default=24)
    parser.add_argument("--level", type=int, default=5, help="of sums")
    options = parser.parse_args()
    world = worlds.get("sums", level=options.level)
    forests(world, max(options.tasks // 3, 1))
    pruning(world, options.tasks, options.rounds)


if __name__ == "__main__":
    main()
