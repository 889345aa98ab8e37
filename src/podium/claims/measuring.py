"""One run of an arm in a cell: trained in memory, measured on held-out tasks, and kept as a compact record."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import lru_cache
from typing import Any

import numpy as np
import torch

from podium.analysis.paired_models import tally
from podium.analysis.probe import relative_distance, weight_vector
from podium.claims.claim import Cell, MethodArm
from podium.core.activity import activity
from podium.core.build import Rollout
from podium.evaluation.measure import held_out
from podium.sessions.probe import APART
from podium.sessions.train import configure
from podium.training.build import build_run
from podium.training.loop import iterate
from podium.training.run import Run

__all__ = ["Measurement", "apartness", "measured_run"]

PERTURBED = 1e-3  # of the spread of a tensor's weights: what a seed adds to the start, so that pairs vary in it, too
DIGITS = 5
# The name of a metric of training, and its name in a record.
CURVE = {
    "pass@1": "pass@1",
    "entropy": "entropy",
    "length": "length",
    "flat_groups": "flat",
    "tokens": "tokens",
    "updates": "updates",
}
GRADIENT = "grad_norm.policy"

Record = dict[str, Any]


class Measurement:
    """How much is measured at the end of a run."""

    def __init__(self, tasks: int = 64, samples: int = 64) -> None:
        self.tasks, self.samples = tasks, samples


def measured_run(cell: Cell, arm: MethodArm, seed: int, lr: float | None, measure: Measurement) -> Record:
    """Train and measure: numbers at the end and the start, the curve of training, and what it cost."""
    begun = time.monotonic()
    with closing(_built(cell, arm, seed, lr)) as run:
        curve: dict[str, list[float]] = {name: [] for name in (*CURVE.values(), "gradient")}
        encoded = 0.0
        while arm.trains and not run.finished:
            line = iterate(run)[1]
            for name, short in CURVE.items():
                curve[short].append(_rounded(line.get(name, 0.0)))
            curve["gradient"].append(_rounded(float(line.get(GRADIENT, 0.0)) ** 2))
            encoded += float(line.get("tokens.encoded", 0.0))
        trained = time.monotonic() - begun
        final = _summary(
            held_out(
                run.driver,
                tasks=measure.tasks,
                samples=measure.samples,
                max_tokens=run.config.max_tokens,
                seed=seed,
                method=run.config.method if arm.trains else None,
            )
        )
    cost = {
        "sampled": sum(curve["tokens"]),
        "encoded": encoded,
        "updates": sum(curve["updates"]),
        "seconds": round(trained, 2),
    }
    return {"final": final, "curve": curve, "cost": cost}


def apartness(cell: Cell, arm: MethodArm, baseline: MethodArm, seed: int, lr: float, iterations: int) -> Record:
    """The gate `active`: how far apart the arms' weights are within so many iterations since they parted, as a share of
    the update since then, until it is over 1 %; and in how many iterations each part of the arm acted."""
    if not baseline.trains:
        return {"distance": 1.0, "iterations": 0, "acted": {}}
    with closing(_built(cell, arm, seed, lr)) as one, closing(_built(cell, baseline, seed, lr)) as other:
        start = weight_vector(one.policy.parameters())
        lines: list[Mapping[str, Any]] = []
        distance, parted = 0.0, 0
        while distance <= APART and parted < iterations and not (one.finished or other.finished):
            lines.append(iterate(one)[1])
            iterate(other)
            ends = [weight_vector(run.policy.parameters()) for run in (one, other)]
            distance = relative_distance(ends[0], ends[1], start)
            if distance == 0:  # what begins later in a run is still to come
                start = ends[0]
            else:
                parted += 1
    acted = {name: list(counts) for name, counts in activity(lines).items()}
    return {"distance": _rounded(distance), "iterations": len(lines), "acted": acted}


def _built(cell: Cell, arm: MethodArm, seed: int, lr: float | None) -> Run:
    """A run whose initial weights are perturbed by the seed, in the same way in all arms."""
    settings = cell.run_settings() | {"seed": seed, "eval_every": 0, "eval_tasks": 1, "checkpoint_every": 0}
    if lr is not None:
        settings["lr"] = lr
    method = arm.build() if arm.trains else "grpo"
    run = build_run(configure(method, **settings))
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in run.policy.parameters():
            noise = torch.randn(parameter.shape, generator=generator).to(parameter)
            spread = parameter.std() if parameter.numel() > 1 else parameter.abs().mean()
            parameter.add_(PERTURBED * spread * noise)
    return run


def _summary(groups: Sequence[Sequence[Rollout]]) -> dict[str, float]:
    counts = tally(groups)
    wrong = [sum(len(turn.ids) for turn in r.turns) for group in groups for r in group if not r.columns["correct"]]
    ks = [k for k in (1, 8, 32, 64) if k <= counts.samples]
    rate = counts.passed(1)
    found = {f"pass@{k}": float(counts.passed(k).mean()) for k in ks}
    found["entropy"] = float(np.mean(counts.token_entropy))
    found["length"] = float(np.mean(counts.length))
    found["wrong_length"] = float(np.mean(wrong)) if wrong else found["length"]
    # The variance that chance in the answers gives the mean rate.
    found["rate_noise"] = float((rate * (1 - rate)).sum() / max(counts.samples - 1, 1) / len(rate) ** 2)
    return {name: _rounded(x) for name, x in found.items()}


@lru_cache(maxsize=1)
def one_thread() -> None:
    """Processes that share a machine compute with one thread each."""
    torch.set_num_threads(1)


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")
