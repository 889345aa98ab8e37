"""Tiers of difficulty, and batches of tasks that still fail, by hand."""

from __future__ import annotations

import pytest
import torch

from podium.core.errors import PodiumError
from podium.parts.select import EasierTiers, HardMix
from podium.parts.select.history import UNKNOWN

RANDOM = torch.tensor([0.3, 0.9, 0.1, 0.6, 0.5], dtype=torch.float64)


def measured(*rates: float) -> dict[str, torch.Tensor]:
    return {
        "group.sweep.rates": torch.tensor(rates, dtype=torch.float64)[:, None],
        "batch.sweep.phase": torch.zeros(1),
        "group.random": RANDOM[: len(rates)],
    }


def test_easier_tiers_have_equal_shares() -> None:
    domains = ("easy", "easy", "easy", "moderate", "difficult")
    weight = EasierTiers()({"group.domain": domains})
    assert weight.tolist() == pytest.approx([1 / 6] * 3 + [1 / 2, 0])


def test_without_such_tiers_all_tasks_are_drawn() -> None:
    assert EasierTiers()({"group.domain": ("", "")}).tolist() == [1, 1]


def test_three_of_four_are_tasks_that_fail() -> None:
    columns = measured(0.0, 0.25, 0.26, 1.0, 0.125)
    assert HardMix().hard(HardMix().rates(columns)).tolist() == [True, True, False, False, True]
    assert HardMix()(columns).tolist() == pytest.approx([0.25, 0.25, 0.125, 0.125, 0.25])
    # By their random numbers: the hard ones are 0, 4, 1, the others 2, 3.
    assert HardMix().choose(columns, 4).tolist() == [0, 4, 1, 2]


def test_what_is_not_measured_comes_first() -> None:
    columns = measured(UNKNOWN, 0.0, UNKNOWN, 1.0)
    assert HardMix()(columns).tolist() == [1, 0, 1, 0]
    assert HardMix().choose(columns, 2).tolist() == [2, 0]


def test_one_kind_fills_the_batch_where_the_other_is_missing() -> None:
    assert HardMix().choose(measured(1.0, 1.0, 0.9), 4).tolist() == [2, 0, 1, 2]
    assert HardMix().choose(measured(0.0, 0.0), 4).tolist() == [0, 1, 0, 1]
    assert HardMix(share=1.0)(measured(1.0, 1.0)).tolist() == [1, 1]


def test_shares_are_shares() -> None:
    with pytest.raises(PodiumError, match="share"):
        HardMix(share=1.5)


def test_weights_are_probabilities_where_one_kind_is_missing() -> None:
    assert HardMix()(measured(0.0, 0.0)).tolist() == pytest.approx([0.5, 0.5])
    assert HardMix()(measured(1.0, 0.9, 0.8, 0.7)).tolist() == pytest.approx([0.25] * 4)
