"""The clipped surrogate is PPO's maximum, in value and gradient."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.parts.objective import Clip, PolicyGradient


def written_out(now: Tensor, old: Tensor, a: Tensor, clip: Clip, low: Tensor | float, high: Tensor | float) -> Tensor:
    """[token] max(−A·r, −A·clip(r)), at most −A·dual where A < 0."""
    r = (now - old).exp()
    loss = torch.maximum(-a * r, -a * r.clamp(min=1 - low).clamp(max=1 + high))
    return loss if clip.dual is None else torch.where(a < 0, torch.minimum(loss, -a * clip.dual), loss)


@pytest.mark.parametrize(
    "clip",
    [
        Clip(0.2, 0.28),
        Clip(0.2, 0.28, dual=1.5),
        Clip(1.0, 1.0, dual=3.0),  # no lower bound
        Clip(1.5, 0.1),  # nor here, where 1 − low is negative
        Clip(0.0, 0.0),
        Clip("token.low", 0.3, dual=1.5),
        Clip("token.low", "token.high"),
    ],
    ids=repr,
)
def test_one_clamp_of_the_log_ratio_is_the_maximum_written_out(clip: Clip) -> None:
    g = torch.Generator().manual_seed(0)
    n = 2000
    draw = {k: torch.randn(n, generator=g, dtype=torch.float64) for k in ("old", "step", "a", "low", "high")}
    draw["a"][::10] = 0
    columns = {
        "token.advantage": draw["a"],
        "token.old.logp": draw["old"],
        "token.low": draw["low"].abs(),
        "token.high": draw["high"].abs(),
    }
    batch = Batch.from_padded(torch.ones(1, n), [0], {k: v[None] for k, v in columns.items()})
    now = (draw["old"] + draw["step"]).requires_grad_()
    ours = PolicyGradient(clip=clip).loss(batch.with_columns({"token.now.logp": now}))
    low, high = (columns[b] if isinstance(b, str) else b for b in (clip.low, clip.high))
    theirs = written_out(now, draw["old"], draw["a"], clip, low, high)
    torch.testing.assert_close(ours, theirs, rtol=1e-13, atol=1e-13)
    slopes = [torch.autograd.grad(x.sum(), now)[0] for x in (ours, theirs)]
    torch.testing.assert_close(*slopes, rtol=1e-13, atol=1e-13)
    assert (slopes[0] == 0).any(), "no token was clipped"
    assert (slopes[0] != 0).any(), "every token was clipped"


def test_a_log_ratio_beyond_the_clamp_has_no_gradient() -> None:
    now = torch.tensor([[30.0, -30.0]], dtype=torch.float64, requires_grad=True)
    columns = {"token.advantage": torch.tensor([[-1.0, 1.0]]).double(), "token.old.logp": torch.zeros(1, 2).double()}
    batch = Batch.from_padded(torch.ones(1, 2), [0], columns | {"token.now.logp": now})
    loss = PolicyGradient(clip=Clip()).loss(batch)
    torch.testing.assert_close(loss.detach(), torch.tensor([20.0, -20.0]).double().exp() * torch.tensor([1, -1]))
    assert torch.autograd.grad(loss.sum(), now)[0].tolist() == [[0.0, 0.0]]
