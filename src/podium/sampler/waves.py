"""Rows of any Hugging Face model through its own forward pass: they leave at any time, and join when none is left."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from podium.core.errors import PodiumError
from podium.policy.plain import padded, precision
from podium.policy.policy import Policy
from podium.sampler.engine import OwnPass, Prompt, Stats, memory_for

__all__ = ["Waves"]


class Waves(OwnPass):
    """Rows of a Hugging Face cache, padded on the left."""

    ahead = 4096

    def __init__(self, policy: Policy, stats: Stats, memory: int | None = None) -> None:
        self.policy, self.stats = policy, stats
        self.memory = memory_for(policy.device, memory)
        self.model: Any = policy.model
        self.token_bytes = _token_bytes(policy)
        known = inspect.signature(self.model.forward).parameters
        self.positions = "position_ids" in known
        # Of a prompt only the last logits are read.
        self.last: dict[str, Any] = {"logits_to_keep": 1} if "logits_to_keep" in known else {}
        self._prompts: list[Prompt] = []
        self._cache: Any = None
        self._mask = torch.zeros(0)
        self.open = True

    def room(self, rows: int, contexts: int, prompt: int, written: int) -> bool:
        return rows * (prompt + written) * self.token_bytes <= self.memory

    def reserve(self, rows: int, contexts: int, prompt: int, written: int, busy: bool) -> None:
        pass

    def admit(self, rows: Sequence[int], prompts: Sequence[Prompt]) -> None:
        self._prompts, self.open = list(prompts), False

    def move(self, source: Sequence[int], target: Sequence[int], left: int) -> None:
        index = torch.arange(self._mask.shape[0], device=self.policy.device)
        index[list(target)] = index[list(source)]
        self._select(index[:left])
        self.open = left == 0

    def _select(self, index: Tensor) -> None:
        self._mask = self._mask.index_select(0, index)
        self._cache.batch_select_indices(index)

    def step(self, ids: Tensor, position: Tensor, length: int) -> Tensor:
        if self._prompts:
            return self._begin()
        self._mask = torch.cat([self._mask, torch.ones_like(self._mask[:, :1])], 1)
        return self._forward(ids[:, None], position[:, None])

    def _begin(self) -> Tensor:
        """Encode the contexts of a wave, each once, and give every completion its own row."""
        distinct = {p.text: n for n, p in enumerate({p.text: p for p in self._prompts}.values())}
        ids, self._mask = padded(list(distinct), self.policy.device, left=True)
        self.stats.encoded += int(self._mask.sum())
        position = (self._mask.cumsum(1) - 1).clamp(min=0)
        self._cache = None
        logits = self._forward(ids, position)
        index = torch.tensor([distinct[p.text] for p in self._prompts], device=self.policy.device)
        self._prompts = []
        self._select(index)
        return logits.index_select(0, index)

    def _forward(self, ids: Tensor, position: Tensor) -> Tensor:
        places = {"position_ids": position} if self.positions else {}
        given = {"attention_mask": self._mask, "past_key_values": self._cache, "use_cache": True, **places, **self.last}
        with precision(self.policy):
            out = self.model(input_ids=ids, **given)
        self._cache = getattr(out, "past_key_values", None)
        if self._cache is None:
            raise PodiumError(f"{self.policy.name} keeps no keys and values between tokens: it cannot be sampled from.")
        logits: Tensor = out.logits[:, -1]
        return logits


def _token_bytes(policy: Policy) -> int:
    """What a token's keys and values take: every step writes those of a layer anew beside the old ones."""
    config = policy.config
    heads = getattr(config, "num_attention_heads", None) or 1
    shared = getattr(config, "num_key_value_heads", None) or heads
    size = getattr(config, "head_dim", None) or config.hidden_size // heads
    return int(2 * (config.num_hidden_layers + 1) * shared * size * (policy.lower or policy.dtype).itemsize)
