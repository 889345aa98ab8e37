"""What the tests of methods share: credit by hand, and short runs on an embedded world."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import podium
from podium.core.batch import Batch
from podium.method import Method
from podium.sessions.train import Result
from tests.conformance.helpers import credited

__all__ = ["credit", "rewards", "short_run"]


def rewards(*groups: Sequence[float], **columns: Any) -> Batch:
    """A batch of these groups; columns are named `rollout__length`."""
    flat = torch.tensor([r for group in groups for r in group], dtype=torch.float64)
    owner = [g for g, group in enumerate(groups) for _ in group]
    named = {name.replace("__", "."): x if isinstance(x, tuple) else torch.as_tensor(x) for name, x in columns.items()}
    return Batch.from_rewards(flat, owner, named)


def credit(method: Method, batch: Batch) -> Tensor:
    """[rollout] the advantage after reward, advantage and shape."""
    found: Tensor = credited(method, batch)["rollout.advantage"]
    return found


def short_run(method: str | Method, path: Path, **settings: Any) -> Result:
    """A few iterations on sums."""
    small: Mapping[str, Any] = {
        "world": "sums",
        "iterations": 3,
        "tasks": 4,
        "eval_tasks": 2,
        "eval_samples": 1,
        "eval_every": 0,
    }
    return podium.train(method, out=path, **{**small, **settings})
