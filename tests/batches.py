"""Small batches by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from podium.core.batch import Batch
from podium.core.build import Rollout, Turn
from podium.core.columns import Purpose

__all__ = ["ONLY_PROBES", "sampled", "spoken"]


def sampled(
    rewards: Sequence[float], group: Sequence[int], tasks: Sequence[Any], probes: Sequence[int] = (), **columns: Any
) -> Batch:
    """Rollouts without tokens: their rewards (right above 0), the group of each, and the task of each group.

    Those in `probes` do not count.
    """
    reward = torch.tensor(rewards, dtype=torch.float64)
    purpose = [int(Purpose.probe if row in probes else Purpose.train) for row in range(len(rewards))]
    known = {"rollout.correct": reward > 0, "rollout.purpose": torch.tensor(purpose), "group.task": tuple(tasks)}
    own = {f"rollout.{name}" if "." not in name else name: x for name, x in columns.items()}
    return Batch.from_rewards(reward, list(group), {**known, **own})


def spoken(
    rows: Sequence[Sequence[float]], rewards: Sequence[float], probes: Sequence[int] = (), **tokens: Any
) -> Batch:
    """Rollouts of one turn: `rows` has a number for each token (their entropy under the sampler), `tokens` others."""
    rollouts = []
    for row, (entropy, reward) in enumerate(zip(rows, rewards, strict=True)):
        own = {name.replace("_", "."): values[row] for name, values in tokens.items()}
        purpose = int(Purpose.probe if row in probes else Purpose.train)
        columns = {"reward": float(reward), "correct": reward > 0, "purpose": purpose, "prompt": f"question {row}"}
        turn = Turn([1] * len(entropy), tokens={"sampler.entropy": list(entropy), **own})
        rollouts.append(Rollout(row, [turn], columns=columns))
    return Batch.from_rollouts(rollouts, dtype=torch.float64)


ONLY_PROBES = sampled([1.0, 0.0], [0, 0], ["a"], probes=(0, 1))
