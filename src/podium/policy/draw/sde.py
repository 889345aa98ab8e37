"""The steps of a flow from noise (σ = 1) to a picture (σ = 0): Gaussian ones, or the deterministic ones of the ODE.

With the velocity v, the length of a step dt = σ_next − σ < 0 and the noise s = level · sqrt(σ / (1 − σ)),

    mean = x (1 + s² dt / 2σ) + v (1 + s² (1 − σ) / 2σ) dt,   std = s sqrt(−dt)

At σ = 1 the next σ stands in the denominator of s. Where the level is 0 this is x + v dt.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

__all__ = ["NOISE", "gaussian_entropy", "gaussian_logp", "sigmas", "step_mean", "step_std"]

NOISE = 0.7  # the level at temperature 1


def sigmas(steps: int) -> Tensor:
    """[steps + 1] from 1 to 0."""
    return torch.linspace(1.0, 0.0, steps + 1)


def step_std(sigma: float, following: float, level: Tensor) -> Tensor:
    """[row] the standard deviation of a step between two σ, at a level of noise for each row."""
    at = following if sigma == 1.0 else sigma
    return level * math.sqrt(sigma / (1.0 - at) * (sigma - following))


def step_mean(x: Tensor, v: Tensor, sigma: Tensor, dt: Tensor, std: Tensor) -> Tensor:
    """[row, pixel] the mean of a step from x with the velocity v; σ, dt and std are [row, 1]."""
    s2 = std.square() / -dt
    return x * (1 + s2 * dt / (2 * sigma)) + v * (1 + s2 * (1 - sigma) / (2 * sigma)) * dt


def gaussian_logp(x: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    """[row] the log-density of x under N(mean, std²), the mean over its pixels; std is [row]."""
    inside = (x - mean).square().mean(-1) / (2 * std.square())
    return -inside - std.log() - 0.5 * math.log(2 * math.pi)


def gaussian_entropy(std: Tensor) -> Tensor:
    """[row] the entropy of N(·, std²) per pixel, in nats."""
    return std.log() + 0.5 * math.log(2 * math.pi * math.e)
