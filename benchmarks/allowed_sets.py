"""What allowed sets cost in CPU time per token, recorded or followed: python benchmarks/allowed_sets.py

The two sides of a pair draw the same tokens, in turn, and the second goes first in every other round. The median of
the rounds' ratios counts; its interval is that of the median (binomial, 95 %).
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch
from numpy.typing import NDArray

from podium.policy.model.load import load
from podium.protocols.grammar import Grammar, Vocabulary
from podium.protocols.sampling import ALLOWED, Generate, Sampling
from podium.sampler.local import LocalSampler

ROWS, TOKENS = 256, 64


class AllButOne(Grammar):
    """Forbids a token that is hardly ever drawn, so that both sides write the same."""

    token: int = 0

    def table(self, vocabulary: Vocabulary) -> NDArray[np.int32]:
        return np.where(np.arange(vocabulary.size) == self.token, -1, 0).astype(np.int32)[None]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=40)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    policy = load("podium/tiny")
    sampler = LocalSampler(policy)
    context = policy.encode([{"role": "user", "content": "12+34"}])
    plain, truncated = Sampling(max_tokens=TOKENS), Sampling(max_tokens=TOKENS, top_k=20, top_p=0.8)
    ruled = plain.replace(grammar=AllButOne())
    pairs: dict[str, tuple[Sampling, Sampling, tuple[str, ...]]] = {
        "top_k 20, top_p 0.8, recorded": (truncated, truncated, (ALLOWED,)),
        "a grammar, followed": (plain, ruled, ()),
        "a grammar, recorded": (plain, ruled, (ALLOWED,)),
    }

    def side(sampling: Sampling, *capture: str) -> tuple[float, list[tuple[int, ...]]]:
        """The processor time, and what was written."""
        sampler.forget()
        begin = time.process_time()
        (written,) = sampler.generate([Generate(context, ROWS, sampling, capture=("entropy", *capture))])
        return time.process_time() - begin, [one.ids for one in written]

    for name, (without, with_sets, capture) in pairs.items():
        ratios = []
        for number in range(rounds + 1):
            if number % 2:
                (own, ids), (other, others) = side(without), side(with_sets, *capture)
            else:
                (other, others), (own, ids) = side(with_sets, *capture), side(without)
            if ids != others:
                raise SystemExit(f"{name}: the two sides wrote different tokens, so their times do not compare.")
            ratios.append(other / own)
        ordered = sorted(ratios[1:])  # the first round warms up
        spread = round(0.98 * rounds**0.5)
        low, high = ordered[max(0, rounds // 2 - spread)], ordered[min(rounds - 1, rounds // 2 + spread)]
        print(f"{name}: {ordered[rounds // 2]:.3f} [{low:.3f}, {high:.3f}] times the CPU time per token", flush=True)


if __name__ == "__main__":
    main()
