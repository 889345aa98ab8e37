"""What lies between the matrix products: plain torch against autograd, and Triton's kernels against plain torch.

The kernels run here under TRITON_INTERPRET=1 where Triton is installed, and as they are on a GPU.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from podium.policy.cuda import ops
from podium.policy.cuda.attention import attend
from podium.policy.forward.kernel_check import check_training_kernels
from podium.policy.forward.pack import pack
from tests.policy import tiny

EXACT = {"atol": 1e-10, "rtol": 1e-10}


def draw(*shape: int, dtype: torch.dtype = torch.float64, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def test_the_norms_derivative_is_autograds() -> None:
    x, weight, residual = draw(7, 12).requires_grad_(), draw(12, seed=1).requires_grad_(), draw(7, 12, seed=2)
    y, scale = ops.normed(x, weight, 1e-5, torch.float64)
    torch.testing.assert_close(y, torch.nn.functional.rms_norm(x, (12,), weight, 1e-5), **EXACT)
    g = draw(7, 12, seed=3)
    expected = torch.autograd.grad(y, (x, weight), g)
    gx, low, gw, again = ops.norm_back(g, x.detach(), scale.detach(), weight.detach(), residual)
    torch.testing.assert_close((gx, low, gw, again), (expected[0] + residual, gx, expected[1], y), **EXACT)


def test_the_gates_derivative_is_autograds() -> None:
    x, g = draw(5, 16).requires_grad_(), draw(5, 8, seed=1)
    y = ops.gated(x)
    (expected,) = torch.autograd.grad(y, x, g)
    torch.testing.assert_close(ops.gate_back(g, x.detach()), (expected, y), **EXACT)


def test_turning_back_undoes_turning() -> None:
    x, position = draw(6, 5, 8), torch.tensor([0, 1, 2, 9, 3, 4])
    angle = torch.arange(10)[:, None] * torch.tensor([1.0, 0.1, 0.01, 0.001]).double()
    turned = x.clone()
    ops.turn(turned, angle.cos(), angle.sin(), position, 3)
    assert not torch.equal(turned[1:, :3], x[1:, :3])
    torch.testing.assert_close(turned[:, 3:], x[:, 3:], **EXACT)
    ops.turn(turned, angle.cos(), angle.sin(), position, 3, back=True)
    torch.testing.assert_close(turned, x, **EXACT)


@pytest.mark.parametrize("sharpness", [1.0, 1.7])
def test_the_heads_derivative_is_autograds(sharpness: float) -> None:
    logits, ids = (4 * draw(6, 11)).requires_grad_(), torch.tensor([0, 3, 10, 10, 5, 1])
    total, entropy, chosen = ops.head_read(logits, ids, sharpness)
    log_p = (logits * sharpness).log_softmax(-1)
    torch.testing.assert_close(chosen - total, log_p.gather(-1, ids[:, None]).squeeze(-1), **EXACT)
    torch.testing.assert_close(entropy, -(log_p.exp() * log_p).sum(-1), **EXACT)
    by_logp, by_entropy = draw(6, seed=1), draw(6, seed=2)
    (expected,) = torch.autograd.grad([chosen - total, entropy], logits, [by_logp, by_entropy])
    fixed = (logits.detach(), ids, sharpness, total.detach(), entropy.detach())
    torch.testing.assert_close(ops.head_back(*fixed, by_logp, by_entropy, torch.float64), expected, **EXACT)


def test_kernels_that_fail_are_left_out_with_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def normed(self, *_: Any) -> None:
            raise RuntimeError("ptxas not found\nmore")

    monkeypatch.setattr(ops, "_failed", [])
    monkeypatch.setattr(ops, "_triton", lambda _: Broken())
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert "fail here (ptxas not found)" in str(ops.check(torch.device("cpu")))
    assert ops.kernels_for(draw(2, 4, dtype=torch.float32)) is None
    ops.normed(draw(2, 4, dtype=torch.float32), draw(4, dtype=torch.float32), 1e-5, torch.float32)


def test_a_kernel_that_fails_at_a_models_own_widths_is_found_before_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    class Small:  # those that `check` tries work
        def normed(self, x: Tensor, weight: Tensor, eps: float, y: Tensor, scale: Tensor) -> None:
            scale.copy_(torch.rsqrt(x.float().square().mean(-1) + eps))
            y.copy_(x.float() * scale[:, None] * weight)

        def gated(self, x: Tensor, y: Tensor) -> None:
            gate, up = x.float().chunk(2, -1)
            y.copy_(torch.nn.functional.silu(gate) * up)

    class Large:
        def linear(self, *_: Any) -> None:
            raise RuntimeError("out of resource: shared memory, Required: 147456\nReducing block sizes may help")

    policy = tiny.policy()
    assert policy.decoder is not None
    policy.decoder.lower = torch.bfloat16  # as on a GPU
    monkeypatch.setattr(ops, "_failed", [])
    expected = policy.score([(5, 6)], [(7, 8)])
    monkeypatch.setattr(ops, "_triton", lambda name: Large() if name == "forward_kernels" else Small())
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert ops.check(torch.device("cpu")) is None
    assert "fail here (out of resource: shared memory, Required: 147456): training goes through" in str(
        check_training_kernels(policy)
    )
    assert all(p.grad is None for p in policy.parameters())
    torch.testing.assert_close(policy.score([(5, 6)], [(7, 8)]), expected)


def test_without_triton_there_is_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ops, "_triton", lambda _: None)
    assert "not installed" in str(ops.check(torch.device("cpu")))


# -- kernels against plain torch ---------------------------------------------------------------------------------------

PLACE = "cuda" if torch.cuda.is_available() else "cpu"
KERNELS = pytest.mark.skipif(
    ops._triton("kernels") is None or (PLACE == "cpu" and os.environ.get("TRITON_INTERPRET") != "1"),
    reason="needs Triton, and a GPU or TRITON_INTERPRET=1",
)


def both(monkeypatch: pytest.MonkeyPatch, run: Callable[[], Any]) -> tuple[Any, Any]:
    """What the kernels give, and plain torch."""
    by_kernel = run()
    with monkeypatch.context() as patch:
        patch.setattr(ops, "kernels_for", lambda *_: None)
        return by_kernel, run()


def near(pair: tuple[Any, Any], tolerance: float = 2e-5) -> None:
    torch.testing.assert_close(*pair, atol=tolerance, rtol=tolerance)


@KERNELS
@pytest.mark.parametrize("width", [48, 576, 896])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_norms_kernels(monkeypatch: pytest.MonkeyPatch, width: int, dtype: torch.dtype) -> None:
    x, weight = draw(37, width, dtype=torch.float32).to(PLACE), draw(width, dtype=torch.float32, seed=1).to(PLACE)
    g, residual = draw(37, width, dtype=dtype, seed=2).to(PLACE), draw(37, width, dtype=torch.float32, seed=3).to(PLACE)
    tolerance = 2e-5 if dtype == torch.float32 else 2e-2
    near(both(monkeypatch, lambda: ops.normed(x, weight, 1e-5, dtype)), tolerance)
    _, scale = ops.normed(x, weight, 1e-5, dtype)
    for extra in (None, residual):
        near(both(monkeypatch, lambda extra=extra: ops.norm_back(g, x, scale, weight, extra)), tolerance)


@KERNELS
def test_the_gates_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    x, g = draw(9, 6000, dtype=torch.float32).to(PLACE), draw(9, 3000, dtype=torch.float32, seed=1).to(PLACE)
    near(both(monkeypatch, lambda: ops.gated(x)))
    near(both(monkeypatch, lambda: ops.gate_back(g, x)))


@KERNELS
@pytest.mark.parametrize("back", [False, True])
def test_the_turning_kernel(monkeypatch: pytest.MonkeyPatch, back: bool) -> None:
    position = torch.randint(0, 100, (33,)).to(PLACE)
    angle = (torch.arange(100)[:, None] * torch.rand(20)).to(PLACE)

    def run() -> Tensor:
        x = draw(33, 9, 40, dtype=torch.float32).to(PLACE)
        ops.turn(x, angle.cos(), angle.sin(), position, 7, back)
        return x

    near(both(monkeypatch, run))


@KERNELS
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(("width", "inner"), [(48, 64), (130, 200)])
def test_the_products_of_the_forward_pass(monkeypatch: pytest.MonkeyPatch, width: int, inner: int, bias: bool) -> None:
    y, weight = (
        draw(150, inner, dtype=torch.float32).to(PLACE),
        0.1 * draw(width, inner, dtype=torch.float32, seed=1).to(PLACE),
    )
    x, added = draw(150, width, dtype=torch.float32, seed=2).to(PLACE), draw(width, dtype=torch.float32).to(PLACE)
    given = added if bias else None
    near(both(monkeypatch, lambda: ops.linear(y, weight, given)))
    near(both(monkeypatch, lambda: ops.add_linear(x, y, weight, given)))


@KERNELS
@pytest.mark.parametrize("width", [500, 9001])
def test_the_heads_kernels(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    logits = (3 * draw(6, width, dtype=torch.float32)).to(PLACE)
    ids = torch.tensor([0, 3, width - 1, 10, 5, 1]).to(PLACE)
    near(both(monkeypatch, lambda: ops.head_read(logits, ids, 0.7)))
    total, entropy, _ = ops.head_read(logits, ids, 0.7)
    slopes = draw(6, dtype=torch.float32).to(PLACE), draw(6, dtype=torch.float32, seed=1).to(PLACE)
    near(both(monkeypatch, lambda: ops.head_back(logits, ids, 0.7, total, entropy, *slopes, torch.float32)))


@KERNELS
@pytest.mark.parametrize(("heads", "kv", "size"), [(4, 2, 16), (3, 3, 40)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16 if PLACE == "cpu" else torch.bfloat16])
def test_the_forward_attention(
    monkeypatch: pytest.MonkeyPatch, heads: int, kv: int, size: int, dtype: torch.dtype
) -> None:
    prompt = tuple(range(50))
    texts = [(*prompt, *range(n)) for n in (3, 30, 80, 600)] + [tuple(range(60, 60 + n)) for n in (1, 17)]
    levels = pack(texts, PLACE, least=16).levels
    nodes = int(levels.within.query_edges[-1])
    joint = draw(nodes, heads + 2 * kv, size, dtype=dtype).to(PLACE)
    q, k, v = joint[:, :heads], joint[:, heads : heads + kv], joint[:, heads + kv :]
    tolerance = 2e-5 if dtype == torch.float32 else 8e-3
    near(both(monkeypatch, lambda: attend(q, k, v, levels, 0.3)), tolerance)
    # Some of the keys are given.
    after = pack(texts, PLACE, given=[(0, 40), (0, 50), (0, 0), (50, 600), (650, 1), (651, 9)], total=660).levels
    few = q[: int(after.within.query_edges[-1])]
    k, v = (draw(660 + len(few), kv, size, dtype=dtype, seed=seed).to(PLACE) for seed in (1, 2))
    near(both(monkeypatch, lambda: attend(few, k, v, after, 0.3)), tolerance)
