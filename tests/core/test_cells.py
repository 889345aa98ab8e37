"""Statistics of cells on numbers worked out by hand; a single cell takes a shorter way to the same numbers."""

from __future__ import annotations

import math

import pytest
import torch

from podium.core import cells as cellwise
from podium.core.errors import PodiumError

X = torch.tensor([3.0, 1.0, 2.0, 1.0, 5.0])
INDEX = torch.tensor([0, 2, 0, 2, 0])  # nobody is in cell 1
ENTERS = torch.tensor([False, True, True, True, True])


def test_an_empty_cell_has_no_elements_no_sum_and_the_fill() -> None:
    assert cellwise.lengths(INDEX, 3, ordered=False).tolist() == [3, 0, 2]
    assert cellwise.total_of_cells(X, INDEX, 3).tolist() == [10, 0, 2]
    assert cellwise.extreme(X, INDEX, 3, "amax", -1).tolist() == [5, -1, 1]
    assert cellwise.first_of_cells(INDEX, 3, None).tolist() == [0, 5, 1]
    assert cellwise.first_of_cells(INDEX, 3, ENTERS).tolist() == [2, 5, 1]


def test_the_borders_of_ordered_cells_give_their_lengths() -> None:
    index = INDEX.sort().values
    assert cellwise.lengths(index, 4, ordered=True).tolist() == cellwise.lengths(index, 4, ordered=False).tolist()


def test_an_occurrence_counts_the_earlier_elements_of_the_cell() -> None:
    assert cellwise.occurrence(INDEX, 3).tolist() == [0, 0, 1, 1, 2]


def test_ties_are_broken_by_the_first_key_and_then_by_place() -> None:
    element, cell, place = cellwise.sort(X, INDEX, 3, None, tuple)
    assert (element.tolist(), cell.tolist(), place.tolist()) == ([2, 0, 4, 1, 3], [0, 0, 0, 2, 2], [0, 1, 2, 0, 1])
    element, _, _ = cellwise.sort(X, INDEX, 3, ENTERS, lambda: (torch.tensor([0, 9, 0, 4, 0]),))
    assert element.tolist() == [2, 4, 3, 1]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_numbers_of_every_size_and_sign_are_sorted_within_their_cells(dtype: torch.dtype) -> None:
    numbers = [0.0, -0.0, 1e-45, -1e-45, 1.0, -1.0, 3e38, -3e38, math.inf, -math.inf, 1.5, 1.5, -2.0, math.nan]
    x, key = torch.tensor(numbers * 2, dtype=dtype), torch.arange(28, 0, -1)
    index = torch.arange(28) % 3
    order = sorted(range(28), key=lambda i: (int(index[i]), math.isnan(x[i]), float(x[i].nan_to_num()), int(key[i])))
    assert cellwise.sort(x, index, 3, None, lambda: (key,))[0].tolist() == order


@pytest.mark.parametrize(
    ("q", "expected"), [(0.0, [2, math.nan, 1]), (0.25, [2.5, math.nan, 1]), (1, [5, math.nan, 1])]
)
def test_a_quantile_lies_between_its_neighbours(q: float, expected: list[float]) -> None:
    torch.testing.assert_close(cellwise.quantile(X, q, INDEX, 3, None), torch.tensor(expected), equal_nan=True)
    with pytest.raises(PodiumError, match="out of range"):
        cellwise.quantile(X, q + 1.5, INDEX, 3, None)


def test_one_cell_is_one_of_several() -> None:
    one, two = torch.zeros(5, dtype=torch.long), torch.tensor([0] * 5 + [1])
    y = torch.cat([X, torch.tensor([7.0])])
    assert torch.equal(cellwise.lengths(one, 1, True), cellwise.lengths(two, 2, True)[:1])
    assert torch.equal(cellwise.total_of_cells(X, one, 1), cellwise.total_of_cells(y, two, 2)[:1])
    for how, fill in (("amin", math.inf), ("amax", -math.inf)):
        assert torch.equal(cellwise.extreme(X, one, 1, how, fill), cellwise.extreme(y, two, 2, how, fill)[:1])
    assert torch.equal(cellwise.quantile(X, 0.4, one, 1, None), cellwise.quantile(y, 0.4, two, 2, None)[:1])
