"""Do several processes train as one does? Each method takes an iteration on all ranks, and one on rank 0 alone.

    torchrun --nproc-per-node 2 -m tools.checks.ranks [NAME …] [--iterations 1]

Tokens must be the same, and the gradients of each update of each model within 1e-6 of their norm. After each
update the run alone takes the weights of the other one, so that gradients are compared at the same weights. Rank 0
prints a line for each method.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
import traceback
import warnings
from contextlib import closing
from typing import Any
from unittest.mock import patch

import torch

from podium import methods
from podium.core.batch import Batch
from podium.core.errors import PodiumError
from podium.core.ranks import ALONE, Ranks
from podium.methods.catalogue import RECIPES
from podium.sessions.train import configure
from podium.training.build import build_run
from podium.training.config import Config
from podium.training.learner import Learner
from podium.training.loop import iterate
from podium.training.process_group import joined_ranks

__all__ = ["TOLERANCE", "Trace", "compare", "small_config", "trace"]

TOLERANCE = 1e-6  # of the norm of a gradient


class Trace:
    """What a run has done: the tokens of each iteration as a hash, the gradients of each update, the metrics."""

    def __init__(self) -> None:
        self.tokens: list[str] = []
        self.gradients: list[torch.Tensor] = []
        self.weights: list[list[torch.Tensor]] = []  # after each update
        self.metrics: list[dict[str, Any]] = []


def small_config(name: str, iterations: int = 1, **changes: Any) -> Config:
    """A method at its home with few tasks."""
    return configure(name, **{"iterations": iterations, "tasks": 4, "eval_every": 0, **changes})


def trace(config: Config, iterations: int, ranks: Ranks = ALONE, along: Trace | None = None) -> Trace:
    """A few iterations of a run; with the weights of another one after each update."""
    seen, step = Trace(), Learner.step

    def recorded(learner: Learner, *rest: Any, **named: Any) -> float:
        parameters = [p for group in learner.optimizer.param_groups for p in group["params"]]
        flat = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
        seen.gradients.append(torch.cat([g.detach().reshape(-1).double() for g in flat]))
        norm = step(learner, *rest, **named)
        if along is not None and len(along.weights) > len(seen.weights):
            with torch.no_grad():
                for p, weight in zip(parameters, along.weights[len(seen.weights)], strict=True):
                    p.copy_(weight)
        seen.weights.append([p.detach().clone() for p in parameters])
        return norm

    def record(_: int, batch: Batch) -> None:
        ids = batch["token.id"] if "token.id" in batch else torch.zeros(0)
        seen.tokens.append(hashlib.sha256(json.dumps(ids.tolist()).encode()).hexdigest())

    with patch.object(Learner, "step", recorded), closing(build_run(config, ranks=ranks)) as run:
        for _ in range(iterations):
            seen.metrics.append(iterate(run, record=record)[1])
    return seen


def compare(together: Trace, alone: Trace) -> dict[str, Any]:
    """Whether the tokens are the same, and by how much the gradients differ, as a share of their norm."""
    same = [a == b for a, b in zip(together.tokens, alone.tokens, strict=True)]
    counts = (len(together.gradients), len(alone.gradients))
    gaps = [
        float((a - b).abs().max() / b.norm().clamp(min=1e-9))
        for a, b in zip(together.gradients, alone.gradients, strict=False)
    ]
    return {"tokens": all(same), "updates": counts, "gap": max(gaps, default=0.0), "first": gaps[0] if gaps else 0.0}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--iterations", type=int, default=1)
    parser.add_argument("--shard", action="store_true", help="each rank keeps a share of the moments")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    failed = 0
    with joined_ranks("cpu") as ranks:
        for name in arguments.names or sorted(RECIPES):
            start = time.monotonic()
            try:
                phases = len(list(methods.get(name).leaves()))
                iterations = max(arguments.iterations, phases)
                config = small_config(name, iterations, shard=arguments.shard)
                together = trace(config, iterations, ranks)
                alone = trace(config, iterations, along=together) if ranks.first else None
            except PodiumError as problem:
                if ranks.first:
                    print(json.dumps({"method": name, "refused": str(problem)[:150]}), flush=True)
                continue
            except Exception:
                traceback.print_exc()
                raise
            if alone is not None:
                row = compare(together, alone)
                fine = row["tokens"] and row["gap"] <= TOLERANCE and row["updates"][0] == row["updates"][1]
                failed += not fine
                seconds = round(time.monotonic() - start, 1)
                print(json.dumps({"method": name, "fine": fine, **row, "seconds": seconds}), flush=True)
    return 1 if failed else 0  # rank 0 alone knows


if __name__ == "__main__":
    sys.exit(main())
