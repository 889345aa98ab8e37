"""The formulas that the survey's methods share, worked out by hand."""

from __future__ import annotations

import math

import pytest
import torch

from podium.parts.objective.preference import preference_loss


def test_dpo_by_hand() -> None:
    """beta 0.1; log π and log π_ref of the chosen −10 and −12, of the rejected −11 and −11.5."""
    chosen, rejected = torch.tensor(0.1 * (-10 + 12.0)), torch.tensor(0.1 * (-11 + 11.5))
    assert float(preference_loss(chosen, rejected)) == pytest.approx(0.620957, abs=5e-7)


def test_dpo_of_equal_policies_is_the_logarithm_of_two() -> None:
    zero = torch.zeros(3)
    assert preference_loss(zero, zero).tolist() == pytest.approx([math.log(2)] * 3)
