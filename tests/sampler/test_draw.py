"""Drawing tokens from truncated distributions, against plain definitions."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from podium.sampler.draw import Filters, draw


def filters(n: int, top_k: int = 0, top_p: float = 1.0, min_p: float = 0.0) -> Filters:
    return Filters(torch.full((n,), top_k), torch.full((n,), top_p), torch.full((n,), min_p))


def plainly(logits: Tensor, temperature: float, top_k: int, top_p: float, min_p: float) -> Tensor:
    """The distribution by definition: one filter after another, on one row in float64."""
    p = (logits.double() / temperature).softmax(-1)
    ranked = sorted(range(len(p)), key=lambda i: (-float(p[i].float()), i))
    if top_k:
        ranked = ranked[:top_k]
    total, kept = float(sum(p[i] for i in ranked)), []
    so_far = 0.0
    for i in ranked:
        if top_p >= 1.0 or so_far < top_p * total:
            kept.append(i)
        so_far += float(p[i])
    kept = [i for i in kept if p[i] >= min_p * p.max()]
    q = torch.zeros_like(p)
    q[kept] = p[kept]
    return q / q.sum()


SETTINGS = [
    (1.0, 0, 1.0, 0.0),
    (0.5, 0, 1.0, 0.0),
    (1.0, 5, 1.0, 0.0),
    (1.0, 300, 1.0, 0.0),
    (1.0, 0, 0.9, 0.0),
    (1.0, 0, 0.999, 0.0),
    (2.0, 0, 0.3, 0.0),
    (1.0, 0, 1.0, 0.05),
    (0.7, 40, 0.9, 0.02),
    (1.0, 1, 1.0, 0.0),
]


@pytest.mark.parametrize(("temperature", "top_k", "top_p", "min_p"), SETTINGS)
@pytest.mark.parametrize("scale", [0.1, 3.0])
def test_the_distribution_is_the_defined_one(
    temperature: float, top_k: int, top_p: float, min_p: float, scale: float
) -> None:
    logits = scale * torch.randn(6, 500, generator=torch.Generator().manual_seed(0))
    drawn = draw(logits, torch.full((6,), 0.5).double(), torch.full((6,), temperature), filters(6, top_k, top_p, min_p))
    for row in range(6):
        expected = plainly(logits[row], temperature, top_k, top_p, min_p)
        torch.testing.assert_close(drawn.probability[row].double(), expected, atol=1e-6, rtol=1e-4)
        assert float(drawn.logp[row]) == pytest.approx(float(expected[drawn.token[row]].log()), abs=1e-5)


def test_tokens_come_as_often_as_their_probability_says() -> None:
    logits = torch.tensor([1.0, 0.0, -1.0, 2.0, 0.5, -3.0, 0.0])
    count = 40_000
    u = torch.rand(count, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    for top_k, top_p in ((0, 1.0), (4, 1.0), (0, 0.8)):
        drawn = draw(logits.expand(count, 7), u, None, filters(count, top_k, top_p))
        expected = plainly(logits, 1.0, top_k, top_p, 0.0) * count
        found = torch.bincount(drawn.token, minlength=7).double()
        inside = expected > 0
        assert torch.equal(found[~inside], torch.zeros(int((~inside).sum())).double())
        chi = float(((found - expected)[inside] ** 2 / expected[inside]).sum())
        assert chi < 22.5  # at most 6 degrees of freedom: p < 0.001 beyond


@given(st.integers(1, 70), st.floats(0.0, 1.0, exclude_max=True), st.integers(0, 2**31))
@settings(max_examples=150, deadline=None)
def test_the_token_is_where_the_cumulative_probability_passes_the_number(size: int, u: float, seed: int) -> None:
    logits = 4 * torch.randn(1, size, generator=torch.Generator().manual_seed(seed))
    token = int(draw(logits, torch.tensor([u], dtype=torch.float64)).token)
    total = logits[0].double().softmax(-1).cumsum(-1)
    assert float(total[token]) > u - 1e-6
    assert token == 0 or float(total[token - 1]) <= u + 1e-6


def test_tokens_of_probability_zero_are_never_drawn() -> None:
    logits = torch.full((3, 100), float("-inf"))
    logits[:, 40] = 0.0
    drawn = draw(logits, torch.tensor([1e-13, 0.5, 1 - 1e-13], dtype=torch.float64))
    assert drawn.token.tolist() == [40, 40, 40]
    assert drawn.logp.tolist() == [0.0, 0.0, 0.0]


def test_rows_do_not_see_each_others_settings() -> None:
    logits = torch.randn(3, 400, generator=torch.Generator().manual_seed(2))
    u = torch.tensor([0.2, 0.6, 0.9], dtype=torch.float64)
    mixed = Filters(torch.tensor([0, 3, 0]), torch.tensor([1.0, 1.0, 0.99]), torch.tensor([0.0, 0.0, 0.0]))
    together = draw(logits, u, torch.tensor([1.0, 0.5, 1.0]), mixed)
    plain = draw(logits[:1], u[:1])
    assert together.token[0] == plain.token[0]
    assert together.logp[0] == plain.logp[0]
    alone = draw(logits[1:2], u[1:2], torch.tensor([0.5]), filters(1, top_k=3))
    assert together.token[1] == alone.token[0]


def test_equal_tokens_are_ranked_by_their_number() -> None:
    drawn = draw(torch.zeros(1, 300), torch.tensor([0.5]).double(), None, filters(1, top_k=10))
    assert drawn.probability[0].nonzero().view(-1).tolist() == list(range(10))
