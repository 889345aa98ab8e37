"""Tables of the rotary position embedding."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

__all__ = ["Rope"]


class Rope:
    """Cosines and sines of the rotation angles, extended as texts get longer."""

    def __init__(self, config: Any, size: int) -> None:
        self.config, self.size = config, size
        self._tables: dict[tuple[torch.device, torch.dtype], tuple[Tensor, Tensor]] = {}

    def __call__(self, length: int, device: torch.device, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Cosines and sines, [at least `length`, size / 2]."""
        cached = self._tables.get((device, dtype))
        if cached is not None and cached[0].shape[0] >= length:
            return cached
        room = max(256, 1 << (length - 1).bit_length())
        with torch.inference_mode(False), torch.no_grad():  # the first caller may be the sampler, the next a trainer
            frequency, factor = _frequencies(self.config, self.size, device)
            angle = torch.arange(room, device=device, dtype=torch.float32)[:, None] * frequency
            tables = (angle.cos() * factor).to(dtype), (angle.sin() * factor).to(dtype)
        self._tables = {(device, dtype): tables, **{k: v for k, v in self._tables.items() if k[0] == device}}
        self._tables[device, dtype] = tables
        return tables


def _frequencies(config: Any, size: int, device: torch.device) -> tuple[Tensor, float]:
    """Angular frequencies of the rotary embedding and the factor on its sines and cosines."""
    rope = config.rope_parameters
    if rope.get("rope_type", "default") == "default":
        exponent = torch.arange(0, size, 2, dtype=torch.float32, device=device) / size
        return 1.0 / rope["rope_theta"] ** exponent, 1.0
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    frequency, factor = ROPE_INIT_FUNCTIONS[rope["rope_type"]](config, device)
    return frequency.to(torch.float32), float(factor)
