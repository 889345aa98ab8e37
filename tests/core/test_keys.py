"""Keys: equal values get equal codes, and codes keep an order that does not depend on anything else."""

from __future__ import annotations

import pytest
import torch

from podium.core.errors import PodiumError
from podium.core.keys import combine_keys, compact, factorize, number_values

CPU = torch.device("cpu")


def test_values_are_numbered_in_the_order_in_which_they_first_appear() -> None:
    assert number_values(["b", "a", "b", None]) == ([0, 1, 0, 2], ["b", "a", None])


def test_numbers_are_coded_in_their_own_order_and_objects_as_they_appear() -> None:
    codes, bound = factorize(torch.tensor([0.5, -1.0, 0.5]), "x", CPU)
    assert (codes.tolist(), bound) == ([1, 0, 1], 2)
    codes, bound = factorize((("b", 1), ("a", 2), ("b", 1)), "x", CPU)
    assert (codes.tolist(), bound) == ([0, 1, 0], 2)


def test_rows_of_a_wide_column_are_one_value_each() -> None:
    codes, bound = factorize(torch.tensor([[1, 2], [1, 3], [1, 2]]), "x", CPU)
    assert (codes.tolist(), bound) == ([0, 1, 0], 2)


def test_values_that_cannot_be_compared_are_no_key() -> None:
    with pytest.raises(PodiumError, match="'notes' cannot be a key"):
        factorize(([1], [2]), "notes", CPU)


@pytest.mark.parametrize("bound", [None, 10, 10**6])
def test_codes_without_holes_keep_their_order(bound: int | None) -> None:
    codes, cells = compact(torch.tensor([9, 3, 9, 4]), bound)
    assert (codes.tolist(), cells) == ([2, 0, 2, 1], 3)


def test_keys_together_have_a_cell_for_each_combination_that_occurs() -> None:
    first, second = torch.tensor([0, 0, 1, 1]), torch.tensor([5, 5, 5, 2])
    codes, cells = combine_keys([(first, 2), (second, 6)], 4, CPU)
    assert (codes.tolist(), cells) == ([0, 0, 2, 1], 3)


@pytest.mark.parametrize("size", [0, 3])
def test_without_a_key_all_share_one_cell(size: int) -> None:
    codes, cells = combine_keys([], size, CPU)
    assert (codes.tolist(), cells) == ([0] * size, min(size, 1))
