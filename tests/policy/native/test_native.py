"""The kernels in C against the same operations in torch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from podium.policy import native as kernels
from podium.policy.forward.decoder import Decoder
from podium.policy.forward.pack import pack
from podium.policy.forward.step import Cache, DecodeStep
from podium.policy.native import library, ops
from podium.policy.native.step import NativeCache, NativeStep, usable
from podium.protocols.sampling import Generate, Sampling
from podium.sampler.draw import Filters, draw
from podium.sampler.local import LocalSampler
from tests.policy import tiny
from tests.policy.forward.test_decoder import texts

pytestmark = pytest.mark.skipif(library() is None, reason="the kernels were not built: there is no C compiler")
MODELS = pytest.mark.parametrize("family", ["llama", "llama-grouped", "qwen2"])


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine without a compiler."""
    for module in ("policy.native.step", "policy.head.functionals", "sampler.draw"):
        monkeypatch.setattr(f"podium.{module}.library", lambda: None)


@MODELS
def test_a_step_is_that_of_torch(family: str) -> None:
    decoder = Decoder(tiny.model(family))
    if not usable(decoder):
        pytest.skip("its layers are not plain")
    decoder.refresh()
    with torch.inference_mode():
        plain, native = Cache(decoder, 16, 8, 32), NativeCache(decoder, 16, 8, 32)
        native.vacate(range(16))
        steps = DecodeStep(decoder, plain, 16, 32), NativeStep(decoder, native, 16)
        for place in range(20):
            ids, position = torch.randint(0, tiny.VOCABULARY, (16,)), torch.full((16,), place)
            one, other = (step(ids, position) for step in steps)
            torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)
        for row in (0, 7):
            for a, b in zip(plain.read(row, 20), native.read(int(native.line[row]), 20), strict=True):
                torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-5)


@MODELS
def test_a_packed_pass_and_its_gradient_are_those_of_torch(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, sequences = tiny.model(family), texts()

    def passed() -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        model.zero_grad()
        decoder, packed = Decoder(model), pack(sequences)
        hidden, _ = decoder.encode(packed)
        (hidden[: packed.count] * torch.linspace(-1, 1, hidden.shape[1])).sum().backward()
        return hidden.detach()[: packed.count], {
            n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None
        }

    native, slopes = passed()
    monkeypatch.setattr(Decoder, "_native", lambda *_: False)
    plain, expected = passed()
    torch.testing.assert_close(native, plain, atol=1e-5, rtol=1e-5)
    for name, slope in expected.items():
        scale = float(slope.abs().max())
        torch.testing.assert_close(slopes[name], slope, atol=5e-5 * scale, rtol=1e-4, msg=name)


def _attention(threads: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    heads, kv, size, nodes = 4, 2, 32, 90
    shared, rest = np.arange(20), [np.arange(20 + 10 * i, 30 + 10 * i) for i in range(7)]
    spans = ops.Spans.of([(0, shared), *((20, np.concatenate([shared, own])) for own in rest)])
    position = torch.tensor([*range(20), *(20 + i for _ in range(7) for i in range(10))])
    angle = torch.arange(40)[:, None] * torch.rand(size // 2, generator=generator)
    rope = torch.stack([angle.cos().repeat(1, 2), torch.cat([-angle.sin(), angle.sin()], 1)], 1).contiguous()
    qkv = torch.randn(nodes, (heads + 2 * kv) * size, generator=generator, requires_grad=True)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        out = ops.attention(qkv, rope, position, spans, heads, kv, size)
        (out * torch.randn(out.shape, generator=generator)).sum().backward()
    finally:
        torch.set_num_threads(before)
    assert qkv.grad is not None
    return out.detach(), qkv.grad


def test_the_number_of_threads_changes_no_bit() -> None:
    for one, other in zip(_attention(1), _attention(2), strict=True):
        assert torch.equal(one, other)


def test_the_slope_of_each_operation_is_that_of_torch() -> None:
    x = torch.randn(9, 64, requires_grad=True)
    w = torch.randn(64, requires_grad=True)
    ids = torch.randint(0, 64, (9,))
    for native, plain, inputs in (
        (lambda: ops.normed(x, w, 1e-6), lambda: F.rms_norm(x, (64,), w, 1e-6), (x, w)),
        (lambda: ops.gated(x), lambda: F.silu(x[:, :32]) * x[:, 32:], (x,)),
        (lambda: ops.chosen(x, ids), lambda: x.log_softmax(-1).gather(1, ids[:, None]).squeeze(1), (x,)),
    ):
        ours, theirs = native(), plain()
        torch.testing.assert_close(ours, theirs, atol=2e-6, rtol=1e-5)
        g = torch.randn(ours.shape)
        for a, b in zip(torch.autograd.grad(ours, inputs, g), torch.autograd.grad(theirs, inputs, g), strict=True):
            torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("vocabulary", [1, 7, 32, 33, 300])
def test_draws_are_those_of_torch(vocabulary: int, request: pytest.FixtureRequest) -> None:
    logits, uniform = torch.randn(200, vocabulary) * 4, torch.rand(200, dtype=torch.float64)
    warm = torch.rand(200) + 0.3
    native = draw(logits, uniform, warm)
    assert native.known_entropy is not None
    request.getfixturevalue("without")
    plain = draw(logits, uniform, warm)
    assert torch.equal(native.token, plain.token)
    torch.testing.assert_close(native.logp, plain.logp, atol=1e-5, rtol=1e-5)
    p, log_p = plain.probability, plain.log_softmax
    torch.testing.assert_close(native.known_entropy, -(p * log_p).sum(-1), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("vocabulary", [1, 5, 40, 300])
@pytest.mark.parametrize("spread", [0.0, 1.0, 6.0])
def test_truncated_draws_are_those_of_torch(vocabulary: int, spread: float, request: pytest.FixtureRequest) -> None:
    n = 400
    logits, uniform = torch.randn(n, vocabulary) * spread, torch.rand(n, dtype=torch.float64)
    logits[: n // 4] = logits[: n // 4].round()  # ties: the lower id first
    filters = Filters(
        torch.randint(0, vocabulary + 3, (n,)),
        (torch.rand(n) * 1.3).clamp(0.01, 1.0),
        torch.where(torch.rand(n) < 0.5, 0.0, torch.rand(n)),
    )
    native = draw(logits, uniform, None, filters)
    request.getfixturevalue("without")
    plain = draw(logits, uniform, None, filters)
    # Where a bound falls on a token to the last bit, rounding decides who is kept: in few rows.
    near = (native.token == plain.token) & ((native.logp - plain.logp).abs() < 1e-4)
    assert float(near.double().mean()) >= 0.98
    p, log_p = plain.probability, plain.log_softmax.clamp(min=-1e9)
    assert native.known_entropy is not None
    torch.testing.assert_close(native.known_entropy[near], -(p * log_p).sum(-1)[near], atol=1e-4, rtol=1e-4)


def test_a_token_without_probability_is_never_drawn() -> None:
    logits = torch.full((3, 40), -torch.inf)
    logits[:, 5] = 0.0
    drawn = draw(logits, torch.tensor([0.0, 0.5, 1 - 2**-53], dtype=torch.float64))
    assert drawn.token.tolist() == [5, 5, 5]
    assert drawn.logp.tolist() == [0.0, 0.0, 0.0]


def test_filters_of_other_rows_change_no_bit() -> None:
    logits, uniform = torch.randn(4, 50), torch.rand(4, dtype=torch.float64)
    alone = draw(logits, uniform)
    mixed = draw(
        logits, uniform, None, Filters(torch.tensor([0, 3, 0, 0]), torch.tensor([1, 1, 0.5, 1]), torch.zeros(4))
    )
    for row in (0, 3):
        assert mixed.token[row] == alone.token[row]
        assert mixed.logp[row] == alone.logp[row]


def test_sampling_without_the_kernels_is_the_same_but_for_rounding(request: pytest.FixtureRequest) -> None:
    asked = [Generate((5, 6, 7), n=6, sampling=Sampling(max_tokens=12)), Generate((9,), n=2)]
    native = LocalSampler(tiny.policy()).generate(asked)
    request.getfixturevalue("without")
    plain = LocalSampler(tiny.policy()).generate(asked)
    for one, other in zip(native, plain, strict=True):
        assert [c.ids for c in one] == [c.ids for c in other]
        for a, b in zip(one, other, strict=True):
            assert a.logp == pytest.approx(b.logp, abs=1e-5)


def test_kernels_built_from_other_sources_are_left_alone_with_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    grown = kernels._structure("Gate", "x y another", "rows width threads")
    monkeypatch.setitem(kernels.KERNELS, "gate", grown)
    with pytest.warns(UserWarning, match="was built from other sources"):
        assert kernels.library.__wrapped__() is None
    monkeypatch.setitem(kernels.KERNELS, "a_new_one", grown)
    with pytest.warns(UserWarning, match="Build it again"):
        assert kernels.library.__wrapped__() is None
