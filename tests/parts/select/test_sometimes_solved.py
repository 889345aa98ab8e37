"""Tasks that are solved now and then, by hand."""

from __future__ import annotations

import pytest
import torch

from podium.core.errors import PodiumError
from podium.parts.select import SometimesSolved


def drawn(rates: list[float], visits: list[float]) -> list[float]:
    columns = {"group.pass_rate.last": torch.tensor(rates), "group.visits": torch.tensor(visits)}
    weights: list[float] = SometimesSolved()({name: x.double() for name, x in columns.items()}).tolist()
    return weights


def test_rates_at_either_end_and_tasks_never_tried_are_drawn() -> None:
    assert SometimesSolved().pool(torch.tensor([0.1, 0.3], dtype=torch.float64)).tolist() == [True, True]
    assert drawn([0.125, 0.25, 0.0, 0.5, 0.5], [1, 2, 1, 3, 0]) == pytest.approx([1 / 3, 1 / 3, 0, 0, 1 / 3])


def test_all_tasks_are_drawn_where_none_is_left() -> None:
    assert drawn([0.0, 1.0], [1, 1]) == [0.5, 0.5]


def test_an_empty_range_is_refused() -> None:
    with pytest.raises(PodiumError, match="must not be above"):
        SometimesSolved(low=0.5, high=0.2)
