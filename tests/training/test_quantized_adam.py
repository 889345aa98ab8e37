"""AdamW with 8-bit running means: rounding without bias, AdamW's own steps, exact resume, less memory."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch

import podium
from podium.core.errors import PodiumError
from podium.sessions.train import resume
from podium.training import quantized_adam
from podium.training.config import MOMENTS, Config
from podium.training.quantized_adam import BLOCK, QuantizedAdamW, quantize

SETTINGS = {"lr": 0.01, "betas": (0.9, 0.99), "weight_decay": 0.1}


def stream(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def gradients(step: int, size: int) -> torch.Tensor:
    return torch.randn(size, generator=stream(step)) * torch.logspace(-4, 0, size)


def trained(optimizer: type[torch.optim.Optimizer], size: int, steps: int) -> torch.Tensor:
    """Weights after some steps with the same gradients."""
    p = torch.nn.Parameter(torch.linspace(-1, 1, size))
    made = optimizer([p], **SETTINGS)
    for step in range(steps):
        p.grad = gradients(step, size)
        made.step()
    return p.detach()


def test_rounding_is_unbiased_and_within_one_spacing() -> None:
    x = torch.tensor([1.0, 0.3, -0.3, 0.0171, -0.9] + [0.0] * (BLOCK - 5))[None]
    drawn = torch.stack([(codes.float() * scale)[0] for codes, scale in (quantize(x, stream(s)) for s in range(4000))])
    assert torch.equal(drawn[:, 0], torch.ones(4000))  # the largest of a block is exact
    assert torch.equal(drawn[:, 5:], torch.zeros_like(drawn[:, 5:]))
    assert ((drawn - x).abs() <= x.abs() / 8).all()
    # The spacing is at most an eighth of a number, so the mean of 4,000 has a standard error below 0.1 %.
    assert torch.allclose(drawn.mean(0)[:5], x[0, :5], rtol=4e-3)


def test_a_mean_follows_changes_below_the_spacing_of_its_format() -> None:
    x = torch.full((1, BLOCK), 1.0)
    x[0, 0] = 2.0  # fixes the scale
    generator = stream()
    for _ in range(700):
        codes, scale = quantize(x, generator)
        x = codes.float() * scale * 0.999
        x[0, 0] = 2.0
    assert x[0, 1:].mean() == pytest.approx(0.999**700, rel=0.05)  # rounded to the nearest it would stay at 1


def test_small_parameters_take_adamw_s_own_steps() -> None:
    assert torch.allclose(trained(QuantizedAdamW, 100, 20), trained(torch.optim.AdamW, 100, 20), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("size", [BLOCK * 20, BLOCK * 20 + 7])
def test_large_parameters_stay_near_adamw_s(size: int) -> None:
    moved = trained(torch.optim.AdamW, size, 30) - torch.linspace(-1, 1, size)
    error = trained(QuantizedAdamW, size, 30) - trained(torch.optim.AdamW, size, 30)
    assert error.norm() < moved.norm() / 8  # each mean is off by less than an eighth, at random
    assert error.norm() > 0


def test_parameters_may_be_updated_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = trained(QuantizedAdamW, BLOCK * 40 + 3, 1)
    monkeypatch.setattr(quantized_adam, "CHUNK", 16 * BLOCK)
    # The first step does not depend on how means were rounded before.
    assert torch.equal(trained(QuantizedAdamW, BLOCK * 40 + 3, 1), whole)
    assert trained(QuantizedAdamW, BLOCK * 40 + 3, 9).isfinite().all()


def test_weights_without_a_gradient_for_long_do_not_jump() -> None:
    size = BLOCK * 16
    p = torch.nn.Parameter(torch.zeros(size))
    made = QuantizedAdamW([p], lr=0.01, betas=(0.9, 0.999), weight_decay=0.0)
    p.grad = torch.logspace(
        -12, 0, size
    )  # within a block a range of which most of the squares vanish beside the largest
    made.step()
    before = p.detach().clone()
    for _ in range(3):
        p.grad = torch.zeros(size)
        made.step()
    assert ((p - before).abs() <= 3 * 0.01 * 3.2).all()  # |m̂| / √v̂ never exceeds 0.1 / √0.001


def test_a_stored_state_goes_on_to_the_bit() -> None:
    size = BLOCK * 20 + 7
    p = torch.nn.Parameter(torch.linspace(-1, 1, size))
    first = QuantizedAdamW([p], **SETTINGS)
    for step in range(4):
        p.grad = gradients(step, size)
        first.step()
    twin = torch.nn.Parameter(p.detach().clone())
    second = QuantizedAdamW([twin], **SETTINGS)
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    assert second.state[twin]["exp_avg"].dtype == torch.float8_e4m3fn
    for step in range(4, 8):
        for parameter, optimizer in ((p, first), (twin, second)):
            parameter.grad = gradients(step, size)
            optimizer.step()
    assert torch.equal(p, twin)


def test_means_take_a_quarter_of_the_memory() -> None:
    size = BLOCK * 1000
    p = torch.nn.Parameter(torch.zeros(size))
    made = QuantizedAdamW([p], **SETTINGS)
    p.grad = torch.ones(size)
    made.step()
    state = [v for k, v in made.state[p].items() if k != "step"]
    assert sum(v.numel() * v.element_size() for v in state) == int((MOMENTS["8bit"] - 4) * size)


def test_a_run_learns_with_8_bit_moments_and_resumes_to_the_bit(tmp_path: Path) -> None:
    settings = {"world": "echo", "iterations": 4, "tasks": 4, "eval_tasks": 8, "moments": "8bit"}
    whole = podium.train("grpo", out=tmp_path / "whole", **settings)
    podium.train("grpo", out=tmp_path / "cut", **{**settings, "iterations": 2})
    assert whole.finished
    config = tmp_path / "cut" / "config.yaml"
    config.write_text(config.read_text().replace("iterations: 2", "iterations: 4"))
    with pytest.warns(UserWarning, match="iterations was 2"):
        resume(tmp_path / "cut")
    stored = [sorted((tmp_path / name / "checkpoints").glob("iteration-*"))[-1] for name in ("whole", "cut")]
    for file in ("policy/model.safetensors", "policy.optimizer.safetensors"):
        assert (stored[0] / file).read_bytes() == (stored[1] / file).read_bytes()


def test_an_unknown_precision_is_refused() -> None:
    with pytest.raises(PodiumError, match=r"moments.*float32.*8bit"):
        Config(method=podium.methods.grpo(), moments="4bit")
