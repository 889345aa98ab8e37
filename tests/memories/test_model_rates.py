"""Pass rates of other models: from their runs, or the policy's own at its first visit."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from podium.core.errors import PodiumError
from podium.memories import ModelRates
from podium.parts.keep import KeepWeakStrong
from tests.batches import sampled


def test_the_first_visit_is_the_weak_models() -> None:
    memory = ModelRates()
    state = memory.observe(memory.initial(), sampled([1.0, 0.0, 1.0, 1.0], [0, 0, 1, 1], ["a", "b"]))
    later = memory.observe(state, sampled([1.0, 1.0], [0, 0], ["a"]))
    recalled = memory.recall(later, ["a", "b", "c"])
    assert recalled["group.rate.weak"].tolist() == [0.5, 1.0, 0.0]
    assert recalled["group.rate.strong"].tolist() == [1.0, 1.0, 1.0]


def test_rates_from_logs_stay_as_they_are() -> None:
    state = {"weak": {"a": 0.5}, "strong": {}}
    assert ModelRates(weak="runs/weak").observe(state, sampled([1.0, 1.0], [0, 0], ["a"])) == state


def test_a_directory_without_rollouts_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PodiumError, match="no logged rollouts"):
        ModelRates(strong=str(tmp_path)).initial()


def test_both_comparisons_are_inclusive() -> None:
    rates = {"group.rate.weak": [0.9375, 0.5, 0.5, 0.93], "group.rate.strong": [1.0, 0.0, 0.25, 0.01]}
    batch = sampled([1.0] * 4, [0, 1, 2, 3], ["a", "b", "c", "d"])
    batch = batch.with_columns({name: torch.tensor(x, dtype=torch.float64) for name, x in rates.items()})
    assert KeepWeakStrong()(batch)["group.keep"].tolist() == [False, False, True, True]
