"""The network of a flow: the velocity at a noisy picture, given the time and what is to be drawn."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

__all__ = ["VelocityNetwork"]

WAVES = 8  # of the time


class VelocityNetwork(nn.Module):
    """Residual layers over the pixels, sines and cosines of the time, and the class."""

    def __init__(self, pixels: int, classes: int, width: int, layers: int, steps: int) -> None:
        super().__init__()
        self.classes, self.steps = classes, steps
        self.into = nn.Linear(pixels + classes + 1 + 2 * WAVES, width)
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))
        self.out = nn.Linear(width, pixels)

    def forward(self, x: Tensor, sigma: Tensor, asked: Tensor) -> Tensor:
        """[row, pixel] from pictures [row, pixel], times [row, 1] and classes [row]."""
        waves = sigma * torch.arange(WAVES, device=x.device) * math.pi
        of_class = nn.functional.one_hot(asked, self.classes).to(x)
        h = nn.functional.silu(self.into(torch.cat([x, of_class, sigma, waves.sin(), waves.cos()], -1)))
        for layer in self.layers:
            h = h + nn.functional.silu(layer(h))
        velocity: Tensor = self.out(h)
        return velocity
