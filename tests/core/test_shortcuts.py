"""What is known without reading every element gives the same numbers as the long way."""

from __future__ import annotations

import pytest
import torch

from podium.core.batch import Batch
from podium.core.partition import constant, everyone
from podium.core.term import Aggregate
from podium.parts.objective import PolicyGradient


def batch(lengths: list[int]) -> Batch:
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    x = torch.linspace(-1, 1, mask.numel(), dtype=torch.float64).reshape(mask.shape)
    columns = {"token.x": x, "token.advantage": x, "token.now.logp": x.flip(0)}
    return Batch.from_padded(mask, [0] * len(lengths), columns)


def test_a_mask_of_everyone_takes_no_memory_and_is_known_as_such() -> None:
    b = batch([2, 3])
    assert constant(b.action)
    assert constant(b.trained("token"))
    assert everyone(b.trained("token"))
    assert b.trained("token").tolist() == [True] * 5
    assert not everyone(torch.zeros(1, dtype=torch.bool).expand(5))
    assert not everyone(torch.ones(5, dtype=torch.bool)), "a mask that must be read is not taken for granted"


@pytest.mark.parametrize("how", ["count", "sum", "mean", "std", "min", "max", "any", "all", "quantile"])
def test_statistics_where_everyone_enters_are_those_without_a_mask(how: str) -> None:
    b = batch([2, 3, 1])
    cells = b.partition("token", "rollout").agg
    arguments = () if how == "count" else (b["token.x"], 0.3) if how == "quantile" else (b["token.x"],)
    expected = getattr(cells, how)(*arguments, where=torch.ones(6, dtype=torch.bool))
    assert torch.equal(getattr(cells, how)(*arguments, where=b.trained("token")), expected)
    assert torch.equal(getattr(cells, how)(*arguments), expected)


@pytest.mark.parametrize("path", ["token mean", "token mean, rollout mean", "token sum / 7, rollout mean of all"])
def test_coefficients_of_everyone_are_those_of_a_mask_that_was_read(path: str) -> None:
    b = batch([2, 3, 0, 1])
    aggregate = Aggregate(path)
    read = aggregate.coefficients(b, torch.ones(6, dtype=torch.bool), 0.5)
    assert torch.equal(aggregate.coefficients(b, b.trained("token"), 0.5), read)
    term = PolicyGradient(ratio="none", aggregate=aggregate, coefficient=0.5)
    kept = b.with_columns({"token.keep": torch.ones(6, dtype=torch.bool)})
    assert torch.equal(term(b), term(kept))


@pytest.mark.parametrize("reverse", [True, False])
def test_a_scan_over_equal_lengths_is_the_scan_over_unequal_ones(reverse: bool) -> None:
    even, uneven = batch([4, 4, 4]), batch([4, 4, 4, 1])
    x = uneven["token.x"]
    expected = uneven.scan(x, "token", reverse=reverse)[:12]
    torch.testing.assert_close(even.scan(x[:12], "token", reverse=reverse), expected, rtol=1e-14, atol=1e-14)


def test_tokens_keep_their_places_where_the_mask_has_holes() -> None:
    mask = torch.tensor([[1, 0, 1, 0], [0, 0, 0, 0], [0, 1, 1, 1]])
    b = Batch.from_padded(mask, [0, 0, 1], {"token.x": torch.arange(12.0).reshape(3, 4)})
    assert b["token.position"].tolist() == [0, 2, 1, 2, 3]
    taken = b.take("rollout", torch.tensor([2, 0]))
    assert taken.to_padded(taken["token.x"], fill=-1).tolist() == [[-1, 9, 10, 11], [0, -1, 2, -1]]


def test_one_turn_a_rollout_and_several_lead_to_the_same_rollouts() -> None:
    mask = torch.tensor([[1, 1, 1], [1, 1, 0]])
    one = Batch.from_padded(mask, [0, 1])
    several = Batch.from_padded(mask, [0, 1], turn=torch.tensor([[0, 1, 1], [0, 1, 1]]))
    assert one.link("token", "rollout").tolist() == several.link("token", "rollout").tolist() == [0, 0, 0, 1, 1]
