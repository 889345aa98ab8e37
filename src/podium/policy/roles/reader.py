"""Loading critics that were saved with their value head, and their values of texts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from podium.core.batch import Batch
from podium.core.build import Rollout, Turn
from podium.core.errors import PodiumError
from podium.core.signal import Signal
from podium.policy.model import weights
from podium.policy.model.load import load
from podium.policy.roles.critic import Critic, critic

__all__ = ["has_head", "read_critic", "values_of"]


def has_head(path: str | Path) -> bool:
    """Whether a directory holds a model with a value head."""
    file = Path(path) / weights.EXTRA
    if not file.is_file():
        return False
    try:
        with safe_open(file, "pt") as opened:
            return any(name.startswith("value_head.") for name in opened.keys())  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise PodiumError(f"{file} is damaged: {error}. Copy it again.") from error


def read_critic(path: str | Path, *, dtype: str = "float32", device: str = "cpu") -> Critic:
    """Load a critic with its value head."""
    loaded = critic(load(path, dtype=dtype, device=device))
    loaded.load(path)
    return loaded


def values_of(reader: Critic, texts: Sequence[str], *, grad: bool = False) -> Tensor:
    """[text] a critic's value after each text as a prompt."""
    end = (reader.end_ids[0],)  # the value is that of the state before this token
    turns = [Turn(end, context=reader.encode([{"role": "user", "content": text}])) for text in texts]
    batch = Batch.from_rollouts([Rollout(number, [turn]) for number, turn in enumerate(turns)])
    value = Signal("value", grad=grad)
    with torch.set_grad_enabled(grad):
        return reader.signals(batch.to(device=reader.device), [value], grad=grad)[value]
