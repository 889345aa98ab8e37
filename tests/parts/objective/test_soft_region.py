"""Trust regions by a gate, by the probability that a token gained or lost, and by clipped log-ratios, by hand."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.errors import PodiumError
from podium.core.term import Aggregate
from podium.parts.objective import Clip, DivergenceMask, PolicyGradient, SoftGate


def batch_of(p_old: list[list[float]], p: list[list[float]], advantage: list[list[float]]) -> tuple[Batch, Tensor]:
    """Rows of tokens with these probabilities before and now."""
    now = torch.tensor(p, dtype=torch.float64).log().requires_grad_()
    old, a = torch.tensor(p_old, dtype=torch.float64).log(), torch.tensor(advantage, dtype=torch.float64)
    columns = {"token.advantage": a, "token.old.logp": old, "token.now.logp": now}
    return Batch.from_padded(torch.ones_like(old), list(range(len(p))), columns), now


def gradient(term: PolicyGradient, batch: Batch, now: Tensor) -> list[float]:
    found: list[float] = torch.autograd.grad(term.loss(batch).sum(), now)[0].reshape(-1).tolist()
    return found


def test_the_gate_keeps_all_of_the_gradient_at_ratio_one_and_less_further_away() -> None:
    # r = 1, 2, 3 with A = 1 and tau = 1: the gradient by log pi is -A r 4 s (1 - s) with s = sigmoid(r - 1):
    # s = 0.5, 0.731059, 0.880797; 4 s (1 - s) = 1, 0.786448, 0.419974.
    batch, now = batch_of([[0.2, 0.2, 0.2]], [[0.2, 0.4, 0.6]], [[1.0, 1.0, 1.0]])
    term = PolicyGradient(clip=SoftGate(1.0, 1.05))
    assert gradient(term, batch, now) == pytest.approx([-1.0, -2 * 0.786448, -3 * 0.419974], abs=1e-5)
    assert term.diagnostics(batch)["gate"].tolist() == pytest.approx([1.0, 0.786448, 0.419974], abs=1e-6)


def test_the_gate_is_steeper_where_the_advantage_is_not_positive() -> None:
    # A = -1, tau = 2, r = 0.5: loss = 4/2 sigmoid(2 (0.5 - 1)) = 2 * 0.268941.
    batch, _ = batch_of([[0.4]], [[0.2]], [[-1.0]])
    assert PolicyGradient(clip=SoftGate(1.0, 2.0)).loss(batch).item() == pytest.approx(2 * 0.268941, abs=1e-5)


def test_a_token_is_left_out_by_how_far_its_probability_moved_not_by_its_ratio() -> None:
    # The ratio of the first token is 5, but its probability rose by 0.04 only; that of the second rose by 0.3.
    batch, now = batch_of([[0.01, 0.5]], [[0.05, 0.8]], [[1.0, 1.0]])
    term = PolicyGradient(clip=DivergenceMask("tv", 0.2, 0.2))
    assert term.diagnostics(batch)["clip_fraction"].tolist() == [False, True]
    assert gradient(term, batch, now) == pytest.approx([-5.0, 0.0])
    assert gradient(PolicyGradient(clip=Clip(0.2, 0.2)), batch, now) == pytest.approx([0.0, 0.0])


@pytest.mark.parametrize(
    ("advantage", "p", "left_out"), [(1.0, 0.8, True), (1.0, 0.2, False), (-1.0, 0.2, True), (-1.0, 0.8, False)]
)
def test_only_a_move_in_the_direction_of_the_advantage_is_stopped(advantage: float, p: float, left_out: bool) -> None:
    for kind in ("tv", "kl"):
        batch, _ = batch_of([[0.5]], [[p]], [[advantage]])
        mask = PolicyGradient(clip=DivergenceMask(kind, 0.1, 0.1)).diagnostics(batch)["clip_fraction"]
        assert mask.tolist() == [left_out]


def test_the_divergence_of_token_and_rest() -> None:
    # KL of (0.5, 0.5) from (0.8, 0.2): 0.5 ln(0.5/0.8) + 0.5 ln(0.5/0.2) = 0.223144; total variation 0.3.
    for kind, distance in (("kl", 0.223144), ("tv", 0.3)):
        batch, _ = batch_of([[0.5]], [[0.8]], [[1.0]])
        for high, left_out in ((distance - 1e-4, True), (distance + 1e-4, False)):
            clip = DivergenceMask(kind, 0.0, high)
            assert PolicyGradient(clip=clip).diagnostics(batch)["clip_fraction"].tolist() == [left_out]


def test_weights_are_capped_where_there_is_a_cap() -> None:
    batch, now = batch_of([[0.001]], [[0.05]], [[1.0]])
    assert gradient(PolicyGradient(clip=DivergenceMask(cap=20.0)), batch, now) == pytest.approx([-20.0])
    assert gradient(PolicyGradient(clip=DivergenceMask(cap=None)), batch, now) == pytest.approx([-50.0])


@pytest.mark.parametrize("shared", [True, False])
def test_tokens_are_clipped_before_the_geometric_mean(shared: bool) -> None:
    # log-ratios 1.0 and 0.2 with A = 2: the first is clipped to 0.4, the mean is 0.3; loss -2 e^0.3 on both tokens.
    # Only the second token has a gradient: -2 e^0.3 / 2 of the sum over both tokens, halved again by the token mean.
    old = torch.tensor([[-3.0, -3.0]], dtype=torch.float64)
    now = (old + torch.tensor([[1.0, 0.2]], dtype=torch.float64)).requires_grad_()
    columns = {"token.advantage": torch.full_like(old, 2.0), "token.old.logp": old, "token.now.logp": now}
    batch = Batch.from_padded(torch.ones_like(old), [0], columns)
    term = PolicyGradient("sequence", Clip(0.4, 0.4, kind="log"), shared=shared, aggregate=Aggregate("token mean"))
    assert term.loss(batch).tolist() == pytest.approx([-2 * math.exp(0.3)] * 2)
    assert torch.autograd.grad(term(batch), now)[0].tolist() == [pytest.approx([0.0, -math.exp(0.3)])]
    assert term.diagnostics(batch)["clip_fraction"].tolist() == [True, False]


def test_log_ratios_are_clipped_on_the_side_of_the_advantage_alone() -> None:
    old = torch.tensor([[-3.0, -3.0]], dtype=torch.float64)
    now = old + torch.tensor([[1.0, -1.0]], dtype=torch.float64)
    columns = {"token.advantage": -torch.ones_like(old), "token.old.logp": old, "token.now.logp": now}
    batch = Batch.from_padded(torch.ones_like(old), [0], columns)
    # A < 0: 1.0 stays, -1.0 becomes -0.4; the mean is 0.3.
    assert PolicyGradient("sequence", Clip(0.4, 0.4, kind="log")).loss(batch).tolist() == pytest.approx(
        [math.exp(0.3)] * 2
    )


def test_what_does_not_fit_together_is_refused() -> None:
    with pytest.raises(PodiumError, match="before the mean over a span"):
        PolicyGradient("token", Clip(kind="log"))
    with pytest.raises(PodiumError, match="probabilities of tokens"):
        PolicyGradient("sequence", DivergenceMask())
