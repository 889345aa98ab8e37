"""AdamW whose two running means take one byte per weight each, instead of four.

A mean is stored as 8-bit floats (e4m3: four bits of exponent, three of mantissa) with one float32 scale for each block
of 256 weights. Of the mean of squares the root is stored, which has half the range of exponents. An update computes in
float32: it reads both means, changes them and the weights as AdamW does, and rounds the means again.

Rounding is stochastic. The mean of squares moves by a thousandth per update, far less than the spacing of three bits of
mantissa: rounded to the nearest value it would stand still. The noise is drawn from a generator that is seeded by the
number of the update and of the parameter, so a resumed run draws the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

__all__ = ["BLOCK", "QuantizedAdamW", "quantize", "state_shapes"]

BLOCK = 256  # weights that share a scale
SMALL = 4096  # parameters with fewer weights, such as norms and biases, keep float32 means
CHUNK = 1 << 26  # weights updated at a time, a multiple of BLOCK: bounds the temporary float32 tensors
FORMAT = torch.float8_e4m3fn
LARGEST, LEAST = 448.0, 2.0**-9  # of the format: its largest number, and its least above 0
NOISE = 1 << 20  # float32 has 23 bits of mantissa, the format 3: rounding drops the lower 20


class QuantizedAdamW(torch.optim.Optimizer):
    """AdamW with 8-bit running means."""

    def __init__(
        self, params: Iterable[Tensor], lr: float, betas: tuple[float, float], weight_decay: float, eps: float = 1e-8
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay, "eps": eps})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """One update of every parameter that has a gradient."""
        assert closure is None, "gradients are computed before the step"
        for group in self.param_groups:
            for number, parameter in enumerate(group["params"]):
                if parameter.grad is not None:
                    self._update(parameter, number, group)

    def _update(self, parameter: Tensor, number: int, group: dict[str, Any]) -> None:
        state = self.state[parameter]
        if not state:
            shapes = state_shapes(self, parameter)
            state |= {name: torch.zeros(shape, device=parameter.device) for name, shape in shapes.items()}
            state["step"] = torch.tensor(0.0)
            for name in ("exp_avg", "exp_avg_sq") if "exp_avg_scale" in state else ():
                state[name] = state[name].to(FORMAT)
        state["step"] += 1
        done = int(state["step"])
        weights, gradient = parameter.view(-1), parameter.grad.reshape(-1)  # type: ignore[union-attr]
        if "exp_avg_scale" not in state:
            _adamw(weights, gradient, state["exp_avg"].view(-1), state["exp_avg_sq"].view(-1), done, group)
            return
        generator = torch.Generator(parameter.device).manual_seed((done << 24) + number)
        for start in range(0, weights.numel(), CHUNK):
            part = slice(start, min(start + CHUNK, weights.numel()))
            blocks = slice(start // BLOCK, -(-part.stop // BLOCK))
            size = part.stop - start
            mean = _restored(state["exp_avg"][blocks], state["exp_avg_scale"][blocks])
            square = _restored(state["exp_avg_sq"][blocks], state["exp_avg_sq_scale"][blocks]).square_()
            _adamw(weights[part], gradient[part], mean.view(-1)[:size], square.view(-1)[:size], done, group)
            state["exp_avg"][blocks], state["exp_avg_scale"][blocks] = quantize(mean, generator)
            # A root that became 0 beside a mean that is not would make the next step as large as 1 / eps.
            codes, scale = quantize(square.sqrt_(), generator, least=LEAST)
            state["exp_avg_sq"][blocks], state["exp_avg_sq_scale"][blocks] = codes, scale

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take a stored state as it is; the base class would turn the 8-bit numbers into float32."""
        super().load_state_dict({**state_dict, "state": {}})
        parameters = [p for group in self.param_groups for p in group["params"]]
        for number, entry in state_dict["state"].items():
            place = parameters[number].device
            self.state[parameters[number]] = {k: v if k == "step" else v.to(place) for k, v in entry.items()}


def state_shapes(optimizer: torch.optim.Optimizer, parameter: Tensor) -> dict[str, torch.Size]:
    """The tensors that an optimiser keeps for a parameter, and their shapes."""
    if not isinstance(optimizer, QuantizedAdamW) or parameter.numel() < SMALL:
        return {"step": torch.Size(()), "exp_avg": parameter.shape, "exp_avg_sq": parameter.shape}
    blocks = -(-parameter.numel() // BLOCK)
    codes, scales = torch.Size((blocks, BLOCK)), torch.Size((blocks, 1))
    return {
        "step": torch.Size(()),
        "exp_avg": codes,
        "exp_avg_scale": scales,
        "exp_avg_sq": codes,
        "exp_avg_sq_scale": scales,
    }


def quantize(x: Tensor, generator: torch.Generator, least: float = 0.0) -> tuple[Tensor, Tensor]:
    """Float32 blocks [blocks, BLOCK] as 8-bit floats and scales [blocks, 1], rounded up or down at random so that the
    expectation is `x`; nonzero numbers become at least `least` in units of the scale.

    Numbers below 2⁻⁶ of the scale, where the format's spacing is constant, are rounded to the nearest.
    """
    scale = x.abs().amax(-1, keepdim=True).div_(LARGEST)
    scale.masked_fill_(scale == 0, 1.0)
    y = (x / scale).clamp_(-LARGEST, LARGEST)
    noise = torch.randint(NOISE, y.shape, generator=generator, device=y.device, dtype=torch.int32)
    rounded = y.view(torch.int32).add_(noise).bitwise_and_(-NOISE).view(torch.float32)
    if least:
        rounded = torch.where(x > 0, rounded.clamp_(min=least), rounded)
    return rounded.to(FORMAT), scale


def _restored(codes: Tensor, scale: Tensor) -> Tensor:
    return codes.float().mul_(scale)


def _adamw(p: Tensor, g: Tensor, mean: Tensor, square: Tensor, step: int, group: dict[str, Any]) -> None:
    """AdamW in place: m ← β₁m + (1 − β₁)g, v ← β₂v + (1 − β₂)g², p ← (1 − lr·λ)p − lr · m̂ / (√v̂ + ε)."""
    first, second = group["betas"]
    lr: float = group["lr"]
    p.mul_(1 - lr * group["weight_decay"])
    mean.lerp_(g, 1 - first)
    square.mul_(second).addcmul_(g, g, value=1 - second)
    root = square.sqrt().div_(math.sqrt(1 - second**step)).add_(group["eps"])
    p.addcdiv_(mean, root, value=-lr / (1 - first**step))
