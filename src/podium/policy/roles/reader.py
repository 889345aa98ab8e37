"""Loading critics that were saved with their value head, and their values of texts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from podium.core.batch import Batch
from podium.core.build import Rollout, Turn
from podium.core.errors import PodiumError
from podium.core.signal import Signal
from podium.policy.model import weights
from podium.policy.model.load import load
from podium.policy.policy import Policy
from podium.policy.roles.critic import Critic, ValueHeads, linear_head
from podium.store.manifest import MANIFEST, check_manifest

__all__ = ["has_head", "read_critic", "scores_of", "values_of"]


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
    """Load a critic or a reward model with its value head; the files must be those of its manifest, if it has one."""
    if not has_head(path):
        raise PodiumError(
            f"{path} has no value head, so it gives no scores: name a reward model (podium rewards fit) or a critic."
        )
    if (Path(path) / MANIFEST).is_file():
        check_manifest(Path(path))
    base = load(path, dtype=dtype, device=device)
    loaded = Critic(base.model, base.tokenizer, name=base.name, notes=base.notes, value_head=_saved_head(base, path))
    loaded.load(path)
    return loaded


def _saved_head(base: Policy, path: str | Path) -> nn.Module:
    """A head of the shape that was saved."""
    with safe_open(Path(path) / weights.EXTRA, "pt") as opened:
        names = list(opened.keys())
        plain = "value_head.weight" in names
        count = opened.get_slice("value_head.weight").get_shape()[0] if plain else 0
    networks = {name.split(".")[2] for name in names if name.startswith("value_head.heads.")}
    width = base.config.hidden_size
    head = linear_head(width, count) if plain else ValueHeads(width, len(networks))
    return head.to(base.device, base.dtype)


def values_of(reader: Critic, texts: Sequence[str], *, grad: bool = False) -> Tensor:
    """[text] a critic's value after each text as a prompt."""
    return scores_of(reader, [reader.encode([{"role": "user", "content": text}]) for text in texts], grad=grad)


def scores_of(reader: Critic, texts: Sequence[Sequence[int]], *, grad: bool = False) -> Tensor:
    """[text] or [text, head] the values after the last token of each text."""
    end = (reader.end_ids[0],)  # the value is that of the state before this token
    batch = Batch.from_rollouts([Rollout(number, [Turn(end, context=text)]) for number, text in enumerate(texts)])
    value = Signal("value", grad=grad)
    with torch.set_grad_enabled(grad):
        return reader.signals(batch.to(device=reader.device), [value], grad=grad)[value]
