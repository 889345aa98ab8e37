"""What allowed sets cost in CPU time per token, recorded or followed: python benchmarks/allowed_sets.py"""

from __future__ import annotations

import statistics
import time

import torch

from podium.policy.model.load import load
from podium.protocols.grammar import Pattern
from podium.protocols.sampling import ALLOWED, Generate, Sampling
from podium.sampler.local import LocalSampler

ROWS, TOKENS, TIMES = 256, 64, 15


def main() -> None:
    torch.set_num_threads(1)
    policy = load("podium/tiny")
    sampler = LocalSampler(policy)
    context = policy.encode([{"role": "user", "content": "12+34"}])
    plain, truncated = Sampling(max_tokens=TOKENS, temperature=1.5), Sampling(max_tokens=TOKENS, top_k=20, top_p=0.8)
    pairs = {
        "top_k 20, top_p 0.8, recorded": (truncated, truncated),
        "a grammar, recorded": (plain, plain.replace(grammar=Pattern("[^_]*"))),
    }

    def seconds(sampling: Sampling, *capture: str) -> float:
        sampler.forget()
        begin = time.process_time()
        (written,) = sampler.generate([Generate(context, ROWS, sampling, capture=("entropy", *capture))])
        return (time.process_time() - begin) / sum(len(one.ids) for one in written)

    for name, (without, with_sets) in pairs.items():
        ratios = [seconds(with_sets, ALLOWED) / seconds(without) for _ in range(TIMES)][1:]
        print(f"{name}: {statistics.median(ratios):.3f} times the CPU time per token")


if __name__ == "__main__":
    main()
