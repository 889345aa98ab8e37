"""A check of the kernels of truncated and warmed draws against plain torch, on a few rows before they are used."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from podium.policy.cuda import decode_reference as plain

__all__ = ["check_draw_kernels"]

# temperature, top_k, top_p, min_p: each filter alone and with others, on flat rows and on peaked ones
SETTINGS = [(1.0, 50, 1.0, 0.0), (0.7, 0, 0.9, 0.0), (1.3, 0, 1.0, 0.05), (1.0, 200, 0.5, 0.01), (1.0, 0, 1.0, 0.0)]
SHARPNESS = (0.5, 2.0, 8.0)
CLOSE = 1e-3


def check_draw_kernels(kernels: Any, vocabulary: int, device: torch.device) -> str | None:
    """What is wrong with the kernels on this device; None: nothing."""
    if kernels is plain:
        return None
    settings = [s for s in SETTINGS for _ in SHARPNESS]
    rows, tiles = len(settings), -(-vocabulary // plain.VOCABULARY_TILE)
    generator = torch.Generator().manual_seed(0)
    sharp = torch.tensor(SHARPNESS * len(SETTINGS))[:, None]
    logits = (sharp * torch.randn(rows, vocabulary, generator=generator)).to(device)
    temperature, top_k, top_p, min_p = (torch.tensor(x, device=device) for x in zip(*settings, strict=True))
    alive = torch.ones(rows, dtype=torch.long, device=device)
    warmth = torch.tensor([[0.5], [1.0], [1.0], [1.0]], device=device).expand(4, rows).contiguous()
    tiled = plain._tiled(logits / temperature[:, None])
    results: list[Tensor] = []
    try:
        for module in (kernels, plain):
            statistics = tiled.amax(-1), *plain._weighed(tiled, tiled.amax(-1))
            heat, warmed = torch.empty_like(temperature), tuple(torch.empty_like(x) for x in statistics)
            module.warm(rows, logits, statistics, temperature, warmth, heat, warmed)
            cuts = module.cuts(rows, tiles, device)
            module.truncate(rows, logits, statistics, temperature, alive, (top_k, top_p, min_p), cuts)
            masses = [plain._gathered(*x)[1].sum(-1) for x in (statistics, warmed)]
            results.append(torch.stack([*masses, heat]).cpu())
    except Exception as error:  # whatever a compiler or a driver may raise
        return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
    return None if torch.allclose(results[0], results[1], rtol=CLOSE) else "its kernels give other numbers on this GPU"
