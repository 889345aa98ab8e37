"""Makes podium/flow: a velocity network that has seen drawn digits, whose labels were often wrong.

    python -m tools.pretrain.flow src/podium/models/flow

So it draws digits well, but not always the one that is asked for: reinforcement learning has something to do.
"""

from __future__ import annotations

import sys
from random import Random

import numpy as np
import torch

from podium.policy.draw.flow_policy import FlowPolicy
from podium.protocols.drawn_text import SHADES
from podium.worlds.glyphs import draw_digit

SETTINGS = {"pixels": 64, "classes": 10, "width": 160, "layers": 3, "steps": 10}
SEEN = 6000  # pictures
MISLABELLED = 0.6  # share of labels that are drawn at random
UPDATES, BATCH = 9000, 256


def main(path: str) -> None:
    """Train the network and write it."""
    torch.manual_seed(0)
    digits = [number % 10 for number in range(SEEN)]
    pictures = np.stack([draw_digit(digit, Random(f"flow/{n}")).reshape(-1) for n, digit in enumerate(digits)])
    x0, label = torch.tensor(pictures).float() / (SHADES / 2) - 1, torch.tensor(digits)
    policy = FlowPolicy(SETTINGS, name="podium/flow")
    optimizer = torch.optim.Adam(policy.parameters(), 2e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, UPDATES)
    total = 0.0
    for update in range(1, UPDATES + 1):
        rows = torch.randint(SEEN, (BATCH,))
        x, noise, sigma = x0[rows] + 0.02 * torch.randn(BATCH, 64), torch.randn(BATCH, 64), torch.rand(BATCH, 1)
        asked = torch.where(torch.rand(BATCH) < MISLABELLED, torch.randint(10, (BATCH,)), label[rows])
        velocity = policy.model((1 - sigma) * x + sigma * noise, sigma, asked)
        loss = (velocity - (noise - x)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        total += float(loss)
        if update % 1000 == 0:
            print(f"{update}: {total / 1000:.4f}", flush=True)
            total = 0.0
    policy.save(path)


if __name__ == "__main__":
    main(sys.argv[1])
