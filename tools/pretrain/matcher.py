"""Makes podium/matcher: a picture tower and a text tower that have seen drawn digits and their names, without a shift.

    python -m tools.pretrain.matcher src/podium/models/matcher

A picture and its name are drawn together, and away from the other names of the batch, as CLIP is trained.
"""

from __future__ import annotations

import sys
from random import Random

import numpy as np
import torch
from torch.nn.functional import cross_entropy, normalize

from podium.policy.roles.matcher import Matcher
from podium.worlds.codebooks import STROKES
from podium.worlds.digits import Digits
from podium.worlds.glyphs import INK, draw_digit

SETTINGS = {"patches": 16, "codes": 28, "pixels": 4, "letters": 8, "width": 128, "size": 32}
SEEN = 12000  # pictures
UPDATES, BATCH = 3000, 128
SHARPNESS = 10.0  # of the cosines in the loss


def main(path: str) -> None:
    """Train the towers and write them."""
    torch.manual_seed(0)
    digits = [number % 10 for number in range(SEEN)]
    drawn = [draw_digit(digit, Random(f"matcher/{n}")) / INK for n, digit in enumerate(digits)]
    codes = torch.tensor(np.stack([STROKES.read(picture[:, :, None]).reshape(-1) for picture in drawn]))
    label = torch.tensor(digits)
    matcher = Matcher(SETTINGS, name="podium/matcher")
    towers = matcher.model
    towers.codebook.data = torch.tensor(STROKES.patches.reshape(SETTINGS["codes"], -1)).float()
    names = torch.zeros(10, SETTINGS["letters"], dtype=torch.long)
    names[:, 0] = torch.tensor([ord(str(digit)) for digit in range(10)])
    optimizer = torch.optim.AdamW([p for p in towers.parameters() if p.requires_grad], 2e-3, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, UPDATES)
    for update in range(1, UPDATES + 1):
        rows = torch.randint(SEEN, (BATCH,))
        pictures, texts = normalize(towers.of_pictures(codes[rows])), normalize(towers.of_texts(names))
        loss = cross_entropy(SHARPNESS * pictures @ texts.T, label[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if update % 500 == 0:
            print(f"{update}: {float(loss.detach()):.4f}", flush=True)
    matcher.save(path)
    for shift, strength in (("none", 0.0), ("noise", 0.3), ("noise", 0.4), ("noise", 0.5), ("blur", 0.5)):
        print(shift, strength, accuracy(matcher, Digits(shift=shift, strength=strength)))


def accuracy(matcher: Matcher, world: Digits, count: int = 500) -> float:
    """The share of held-out pictures that are nearest to their own name."""
    tasks = [world.task(number, "test") for number in range(count)]
    with torch.no_grad():
        texts = normalize(torch.cat(matcher.states([(ord(str(d)),) for d in range(10)])))
        pictures = matcher.states([matcher.encode([{"content": task.prompt}]) for task in tasks])
        found = (normalize(torch.cat(pictures)) @ texts.T).argmax(1).tolist()
    return float(np.mean([f == int(task.data["answer"]) for f, task in zip(found, tasks, strict=True)]))


if __name__ == "__main__":
    main(sys.argv[1])
