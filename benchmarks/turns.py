"""Episodes of several turns against single answers of the same lengths: tokens per second, and their ratio.

    python benchmarks/turns.py [--worlds keydoor lookup tools clarify] [--rounds 5] [--threads 2] [--profile]

An episode stops for its world after every turn, reads what the world says, and goes on; a single answer never stops.
Both have the same prompts and the same lengths, in one process, in turns; the median of the rounds counts. A length is
all that stands after the prompt: what the model wrote and what the world said. The last number is the rate of what was
written alone, against single answers of that many tokens.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial

import torch

from podium import worlds
from podium.collect.driver import Driver
from podium.core.build import Rollout
from podium.policy import Policy, load
from podium.protocols.context import Full
from podium.protocols.world import World
from podium.sampler import Generate, Sampling
from podium.sampler.local import LocalSampler
from podium.strategies import Draw, Sample
from podium.strategies.requests import TaskRequest

GROUPS, COPIES, TURNS, WRITTEN = 8, 8, 8, 12
GOAL = 0.7


def episodes(driver: Driver, world: World, run: int) -> list[Rollout]:
    """Groups of episodes of at most TURNS turns of at most WRITTEN tokens."""
    sampling = Sampling(max_tokens=WRITTEN)
    requests = [TaskRequest(world.task(i), i, sampling, (run, i)) for i in range(GROUPS)]
    strategy = Sample(n=COPIES, draw=Draw(max_turns=TURNS, context=Full()))
    return [r for group in driver.collect([strategy.plan(request) for request in requests]) for r in group]


def singles(sampler: LocalSampler, like: list[Rollout], length: Callable[[Rollout], int], run: int) -> int:
    """An answer to the prompt of each episode, of this length. Nothing is known of the last ones, as to a `Driver`."""
    sampler.forget()
    requests = [
        Generate(
            tuple(rollout.turns[0].context),
            sampling=Sampling(max_tokens=length(rollout)),
            stream=(run, i),
            capture=("entropy",),
            keep=False,
        )
        for i, rollout in enumerate(like)
    ]
    return sum(len(c.ids) for answers in sampler.generate(requests) for c in answers)


def written(rollout: Rollout) -> int:
    return sum(len(turn.ids) for turn in rollout.turns)


def whole(rollout: Rollout) -> int:
    last = rollout.turns[-1]
    return len(last.context) + len(last.ids) - len(rollout.turns[0].context)


def timed(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def compare(world: World, policy: Policy, endless: Policy, rounds: int) -> float:
    driver = Driver(LocalSampler(policy), world, follow_up=policy.follow_up)
    single = LocalSampler(endless)
    like = episodes(driver, world, 0)
    turns = sum(len(r.turns) for r in like) / len(like)
    lengths = {whole: sum(map(whole, like)), written: sum(map(written, like))}
    for length, tokens in lengths.items():
        assert singles(single, like, length, 0) == tokens
    several: list[float] = []
    answers: dict[Callable[[Rollout], int], list[float]] = {whole: [], written: []}
    for _ in range(rounds):
        several.append(timed(lambda: episodes(driver, world, 0)))
        for length, times in answers.items():
            times.append(timed(partial(singles, single, like, length, 0)))
    ratio, alone = (statistics.median(times) / statistics.median(several) for times in answers.values())
    rate = lengths[whole] / statistics.median(several)
    print(
        f"{world.name:10s} {turns:4.1f} turns {lengths[whole]:6d} tokens   several turns {rate:8.0f}/s   "
        f"single answers {rate / ratio:8.0f}/s   ratio {ratio:.2f}   of {lengths[written]} written {alone:.2f}",
        flush=True,
    )
    return ratio


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", nargs="+", default=["keydoor", "lookup", "tools", "clarify"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--model", default="podium/tiny")
    parser.add_argument("--profile", action="store_true", help="show where the time of the episodes goes")
    chosen = parser.parse_args()
    torch.set_num_threads(chosen.threads)
    policy, endless = load(chosen.model), load(chosen.model)
    endless.chat.end_ids = ()
    if chosen.profile:
        import cProfile

        world = worlds.get(chosen.worlds[0], level=2)
        driver = Driver(LocalSampler(policy), world, follow_up=policy.follow_up)
        episodes(driver, world, 0)
        driver.sampler.engine.renew()  # type: ignore[attr-defined]
        cProfile.runctx("episodes(driver, world, 0)", globals(), locals(), sort="cumulative")
        return
    ratios = [compare(worlds.get(name, level=2), policy, endless, chosen.rounds) for name in chosen.worlds]
    print(f"median ratio {statistics.median(ratios):.2f} (goal {GOAL})")


if __name__ == "__main__":
    main()
