"""What a tournament costs with the world as the judge: its share of the CPU seconds of an iteration of arenarl.

    python benchmarks/tournament.py [--iterations 6] [--topology seeded round_robin]

Counted is everything from the first question of a wave to the last answer: the world's verdicts, the bookkeeping of the
driver, and the choice of the next pairs.
"""

from __future__ import annotations

import argparse
import time
from contextlib import closing
from unittest.mock import patch

import torch

from podium.collect.judging import Judging
from podium.methods import get
from podium.sessions.train import configure
from podium.training.build import build_run
from podium.training.loop import iterate

WARM = 1  # iterations that are not counted


class Clock:
    """CPU seconds within calls, those that a call makes itself counted once."""

    def __init__(self) -> None:
        self.seconds, self.calls, self.inside = 0.0, 0, False
        self.start = Judging.start

    def timed(self, judging: Judging) -> None:
        self.calls += judging.request.calls
        if self.inside:
            return self.start(judging)
        self.inside, begun = True, time.process_time()
        try:
            self.start(judging)
        finally:
            self.seconds += time.process_time() - begun
            self.inside = False


def share(topology: str, iterations: int) -> str:
    """The cost with one topology, in words."""
    clock = Clock()
    config = configure(get("arenarl", topology=topology), world="trips", level=1, model="podium/tiny2", tasks=32)
    with closing(build_run(config)) as run, patch.object(Judging, "start", lambda judging: clock.timed(judging)):
        for _ in range(WARM):
            iterate(run)
        clock.seconds, clock.calls, begun = 0.0, 0, time.process_time()
        for _ in range(iterations):
            iterate(run)
        whole = time.process_time() - begun
    each = f"{clock.seconds / iterations:.3f} of {whole / iterations:.3f} s of CPU an iteration"
    return f"{topology:12} {clock.calls // iterations} calls, {each}: {clock.seconds / whole:.1%}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--iterations", type=int, default=6)
    parser.add_argument("--topology", nargs="+", default=["seeded", "round_robin"])
    given = parser.parse_args()
    torch.set_num_threads(1)
    for topology in given.topology:
        print(share(topology, given.iterations), flush=True)


if __name__ == "__main__":
    main()
