"""Perplexity and position shaping as their authors release them."""

from __future__ import annotations

import math

import pytest
import torch

from podium import methods
from podium.core.batch import Batch
from podium.core.shares import scaled
from podium.core.value import Clock
from podium.parts.shape import PerplexityFactor, PositionBonus


def answers(logp: list[float], advantage: float = 1.0) -> Batch:
    """Answers of one token to one task, with these log-probabilities."""
    columns = {
        "token.advantage": torch.full((len(logp), 1), advantage, dtype=torch.float64),
        "token.old.logp": torch.tensor(logp, dtype=torch.float64)[:, None],
    }
    return Batch.from_padded(torch.ones(len(logp), 1), [0] * len(logp), columns)


def test_perplexities_are_standardised_in_their_group_without_outliers() -> None:
    # log PPL 1, 2, 3, 4, 100: the quartiles are 2 and 4, so that only what lies in [−1, 7] counts: mean 2.5, population
    # variance (2.25 + 0.25 + 0.25 + 2.25) / 4 = 1.25.
    found = PerplexityFactor(scope="group").weights(answers([-1.0, -2.0, -3.0, -4.0, -100.0]))
    expected = torch.tensor([-1.5, -0.5, 0.5, 1.5, 97.5], dtype=torch.float64) / math.sqrt(1.25)
    torch.testing.assert_close(found, expected)


def test_the_factor_stays_within_its_bounds() -> None:
    part = PerplexityFactor(0.1, scope="group", low=0.8, high=1.2)
    found = part(answers([-1.0, -2.0, -3.0, -4.0, -100.0]))["token.advantage"]
    w = 0.1 / math.sqrt(1.25)
    expected = torch.tensor([1 + 1.5 * w, 1 + 0.5 * w, 1 - 0.5 * w, 1 - 1.5 * w, 0.8], dtype=torch.float64)
    torch.testing.assert_close(found, expected)


def test_equal_perplexities_change_nothing() -> None:
    assert (PerplexityFactor(0.5, scope="group")(answers([-2.0] * 3))["token.advantage"] == 1).all()


def test_the_position_bonus_rises_in_the_middle_and_is_at_most_half_of_the_advantage() -> None:
    columns = {"token.advantage": torch.tensor([[1.0] * 4, [-0.1] * 4], dtype=torch.float64)}
    batch = Batch.from_padded(torch.ones(2, 4), [0, 0], columns)
    part = PositionBonus(0.1, 15.0, centre=0.5, cap=0.5, first=0)
    # σ(15 (t/4 − ½)) for t = 0, 1, 2, 3: σ(−7.5), σ(−3.75), σ(0), σ(3.75).
    rise = [1 / (1 + math.exp(-x)) for x in (-7.5, -3.75, 0.0, 3.75)]
    long = [1 + 0.1 * r for r in rise]
    short = [-0.1 - min(0.1 * r, 0.05) for r in rise]
    assert part(batch)["token.advantage"].tolist() == pytest.approx(long + short)


@pytest.mark.parametrize("variant", ["position", "perplexity"])
def test_shaping_acts_in_its_window_of_the_run(variant: str) -> None:
    method = scaled(methods.entropy_exchange_shaping(variant), {"iterations": 12, "max_tokens": 80})
    strength = [float(next(iter(method.at(Clock(i)).shape[0].settings().values()))) for i in range(12)]
    assert [s > 0 for s in strength] == [6 <= i < 9 for i in range(12)]


def test_the_paper_s_window_is_that_of_the_release() -> None:
    method = methods.get("entropy-exchange-shaping@paper")
    strength = [float(method.at(Clock(i)).shape[0].gamma) for i in (0, 199, 200, 298, 299)]
    assert strength == [0.0, 0.0, 0.1, 0.1, 0.0]  # iterations are counted from 0: 201 to 299 counted from 1
