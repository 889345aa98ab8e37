"""By how much truncation and warmth raise the log-probability of a token that was drawn."""

from __future__ import annotations

import math

import pytest
import torch

from podium.policy.head.draw_shift import draw_shift
from podium.policy.head.functionals import HeadRows
from podium.sampler.draw import Filters, draw

P = torch.tensor([0.5, 0.3, 0.15, 0.05])


def shifted(token: int, **settings: float) -> float:
    rows = HeadRows.of(P.log()[None], P[None], torch.tensor([token]))
    return float(draw_shift(rows, **settings)[0])  # type: ignore[arg-type]


def test_it_is_the_log_of_the_mass_that_truncation_leaves() -> None:
    assert shifted(0) == 0.0
    assert shifted(0, top_k=2) == pytest.approx(math.log(0.8))
    assert shifted(1, top_p=0.6) == pytest.approx(math.log(0.8))  # 0.5 is not enough, so the next one stays too
    assert shifted(0, top_p=0.5) == pytest.approx(math.log(0.5))
    # Of 0.5 + 0.3 + 0.15 = 0.95, which top-k leaves, top-p wants 0.8 · 0.95 = 0.76: two tokens.
    assert shifted(1, top_k=3, top_p=0.8) == pytest.approx(math.log(0.8))


def test_a_token_that_was_drawn_was_not_cut_off() -> None:
    assert shifted(2, top_k=2) == pytest.approx(math.log(0.95))
    assert shifted(3, top_p=0.5) == pytest.approx(math.log(0.55))


def test_warmth_divides_the_logits_by_its_factor() -> None:
    entropy = -float((P * P.log()).sum())
    factor = 1 + 0.5 * max(min(0.4 * (math.log(entropy) + 1.0), 1.0), -1.0)  # log H lies above the pivot −1
    warm = (P.log() / factor).softmax(0)
    found = shifted(1, strength=0.5, pivot=-1.0, above=0.4, below=9.0)
    assert found == pytest.approx(math.log(0.3) - math.log(float(warm[1])), abs=1e-6)


@pytest.mark.parametrize(("top_k", "top_p"), [(0, 0.7), (5, 1.0), (6, 0.5), (0, 0.999)])
def test_it_undoes_what_the_sampler_does(top_k: int, top_p: float) -> None:
    generator = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(64, 50, generator=generator)
    uniform = torch.rand(64, generator=generator, dtype=torch.float64)
    filters = Filters(torch.full((64,), top_k), torch.full((64,), top_p), torch.zeros(64))
    drawn = draw(logits, uniform, filters=filters)
    log_p = logits.log_softmax(-1)
    rows = HeadRows.of(log_p, log_p.exp(), drawn.token)
    restated = drawn.logp + draw_shift(rows, top_k=top_k, top_p=top_p)
    torch.testing.assert_close(restated, log_p.gather(1, drawn.token[:, None])[:, 0], atol=1e-5, rtol=0)
