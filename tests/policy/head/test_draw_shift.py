"""By how much a warmth raises the log-probability of a token that was drawn."""

from __future__ import annotations

import math

import pytest
import torch

from podium.policy.head.draw_shift import draw_shift
from podium.policy.head.functionals import HeadRows

P = torch.tensor([0.5, 0.3, 0.15, 0.05])


def shifted(token: int, **settings: float) -> float:
    rows = HeadRows.of(P.log()[None], P[None], torch.tensor([token]))
    return float(draw_shift(rows, **settings)[0])  # type: ignore[arg-type]


def test_warmth_divides_the_logits_by_its_factor() -> None:
    entropy = -float((P * P.log()).sum())
    factor = 1 + 0.5 * max(min(0.4 * (math.log(entropy) + 1.0), 1.0), -1.0)  # log H lies above the pivot −1
    warm = (P.log() / factor).softmax(0)
    found = shifted(1, strength=0.5, pivot=-1.0, above=0.4, below=9.0)
    assert found == pytest.approx(math.log(0.3) - math.log(float(warm[1])), abs=1e-6)
