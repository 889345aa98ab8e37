"""The clipped surrogate is PPO's maximum, in value and gradient; ratios of spans are length-normalised."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.parts.objective import Clip, PolicyGradient
from podium.parts.objective.clip import clipped_surrogate, fast_clipped_surrogate
from podium.parts.objective.importance import log_ratio_limits, sequence_log_ratio, span_log_ratio, token_log_ratio

CLIPS = [
    Clip(0.2, 0.28),
    Clip(0.2, 0.28, dual=1.5),
    Clip(1.0, 1.0, dual=3.0),  # no lower bound
    Clip(1.5, 0.1),  # nor here, where 1 − low is negative
    Clip(0.0, 0.0),
    Clip("token.low", 0.3, dual=1.5),
    Clip("token.low", "token.high"),
]


def gradient(loss: Tensor, by: Tensor) -> Tensor:
    return torch.autograd.grad(loss.sum(), by)[0]


def test_the_formula_by_hand() -> None:
    ratio = torch.tensor([1.5, 0.5, 1.5, 0.5, 9.0, 1.1]).double()
    advantage = torch.tensor([2.0, 2.0, -2.0, -2.0, -2.0, 2.0]).double()
    loss = clipped_surrogate(ratio, advantage, 0.8, 1.2)
    torch.testing.assert_close(loss, torch.tensor([-2.4, -1.0, 3.0, 1.6, 18.0, -2.2]).double())
    loss = clipped_surrogate(ratio, advantage, 0.8, 1.2, dual=3.0)
    torch.testing.assert_close(loss, torch.tensor([-2.4, -1.0, 3.0, 1.6, 6.0, -2.2]).double())


@pytest.mark.parametrize(
    ("ratio", "shared"), [("token", False), ("turn", False), ("sequence", False), ("sequence", True)]
)
@pytest.mark.parametrize("clip", CLIPS, ids=repr)
def test_one_clamp_is_the_maximum_written_out(clip: Clip, ratio: str, shared: bool) -> None:
    g = torch.Generator().manual_seed(0)
    rows, width = 500, 4
    draw = {k: torch.randn(rows, width, generator=g, dtype=torch.float64) for k in ("old", "step", "a", "low", "high")}
    draw["a"][::10] = 0
    draw["step"] += 2 * draw["step"][:, :1]  # so that the means over a rollout leave the bounds, too
    columns = {
        "token.advantage": draw["a"],
        "token.old.logp": draw["old"],
        "token.low": draw["low"].abs(),
        "token.high": draw["high"].abs(),
    }
    batch = Batch.from_padded(torch.ones(rows, width), list(range(rows)), columns)
    now = (draw["old"] + draw["step"]).reshape(-1).requires_grad_()
    batch, term = batch.with_columns({"token.now.logp": now}), PolicyGradient(ratio, clip, shared=shared)
    fast = term.loss(batch)
    low, high = clip.bounds(batch)
    written_out = clipped_surrogate(term.log_ratio(batch).exp(), batch["token.advantage"], low, high, clip.dual)
    torch.testing.assert_close(fast, written_out, rtol=1e-13, atol=1e-13)
    slopes = [gradient(x, now) for x in (fast, written_out)]
    torch.testing.assert_close(*slopes, rtol=1e-13, atol=1e-13)
    assert (slopes[0] == 0).any(), "no token was clipped"
    assert (slopes[0] != 0).any(), "every token was clipped"


@pytest.mark.parametrize("dual", [None, 1.5, 1e9])
def test_the_fast_form_holds_log_ratios_within_the_limits(dual: float | None) -> None:
    log_ratio = torch.linspace(-40, 40, 321, dtype=torch.float64).repeat(2)
    advantage = torch.tensor([2.0, -2.0], dtype=torch.float64).repeat_interleave(321)
    for limits in (log_ratio_limits(20.0, of_tokens=True), log_ratio_limits(20.0, of_tokens=False)):
        fast = fast_clipped_surrogate(log_ratio, advantage, 0.8, 1.28, dual, limits)
        written_out = clipped_surrogate(log_ratio.clamp(*limits).exp(), advantage, 0.8, 1.28, dual)
        torch.testing.assert_close(fast, written_out, rtol=1e-13, atol=1e-13)


def test_limits_are_on_both_sides_for_tokens_and_above_for_spans() -> None:
    assert log_ratio_limits(20.0, of_tokens=True) == (-20.0, 20.0)
    assert log_ratio_limits(20.0, of_tokens=False) == (-math.inf, 10.0)
    assert log_ratio_limits(5.0, of_tokens=False) == (-math.inf, 5.0)


def test_the_ratio_of_a_sequence_is_the_geometric_mean_of_its_trained_tokens() -> None:
    mask = torch.tensor([[1, 1, 0], [1, 1, 1]])
    old = torch.tensor([[-1.0, -2.0, -9.0], [-1.0, -1.0, -1.0]]).double()
    now = torch.tensor([[-0.5, -1.0, 7.0], [-1.0, -2.0, -3.0]]).double()
    batch = Batch.from_padded(mask, [0, 0], {"token.old.logp": old, "token.now.logp": now})
    new, before = batch["token.now.logp"], batch["token.old.logp"]
    assert span_log_ratio(batch, token_log_ratio(new, before), "rollout").tolist() == [0.75, -1.0]
    assert sequence_log_ratio(batch, token_log_ratio(new, before)).tolist() == [0.75] * 2 + [-1.0] * 3
    assert token_log_ratio(new, before).tolist() == [0.5, 1.0, 0.0, -1.0, -2.0]


def test_the_gradient_of_a_sequence_ratio_reaches_its_token_or_all_of_them() -> None:
    old = torch.zeros(1, 4).double()
    batch = Batch.from_padded(torch.ones(1, 4), [0], {"token.old.logp": old})
    now = torch.full((4,), 0.5, dtype=torch.float64, requires_grad=True)
    for shared, expected in ((False, [1.0, 0.0, 0.0, 0.0]), (True, [0.25] * 4)):
        first = sequence_log_ratio(batch, token_log_ratio(now, batch["token.old.logp"]), shared=shared)[0]
        assert gradient(first, now).tolist() == expected


def test_a_log_ratio_beyond_the_clamp_has_no_gradient() -> None:
    now = torch.tensor([[30.0, -30.0]], dtype=torch.float64, requires_grad=True)
    columns = {"token.advantage": torch.tensor([[-1.0, 1.0]]).double(), "token.old.logp": torch.zeros(1, 2).double()}
    batch = Batch.from_padded(torch.ones(1, 2), [0], columns | {"token.now.logp": now})
    loss = PolicyGradient(clip=Clip()).loss(batch)
    torch.testing.assert_close(loss.detach(), torch.tensor([20.0, -20.0]).double().exp() * torch.tensor([1, -1]))
    assert gradient(loss, now).tolist() == [[0.0, 0.0]]
