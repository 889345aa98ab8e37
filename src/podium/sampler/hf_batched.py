"""Rows of any Hugging Face model through its own forward pass: they leave at any time, and join when none is left."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from podium.core.errors import PodiumError
from podium.policy.forward.padded import padded, precision
from podium.policy.model.device import out_of_memory
from podium.policy.policy import Policy
from podium.sampler.row_engine import OwnPass, Prompt, Stats, memory_for

__all__ = ["Waves"]

Ids = tuple[int, ...]


@dataclass
class _Part:
    """Rows that go through the model together."""

    row: Tensor  # [part's row] their numbers, ascending
    prompts: list[Ids]
    written: Tensor  # [part's row, token] after the prompts
    cache: Any = None  # a Hugging Face cache, padded on the left; None: their texts have not been read
    mask: Tensor | None = None  # [part's row, token] which of its tokens are real

    def only(self, index: Tensor) -> _Part:
        """Some of its rows, with what it has read of them: the cache is theirs from now on."""
        if self.cache is not None:
            self.cache.batch_select_indices(index)
        prompts = [self.prompts[i] for i in index.tolist()]
        mask = None if self.mask is None else self.mask.index_select(0, index)
        return _Part(self.row[index], prompts, self.written.index_select(0, index), self.cache, mask)

    def halves(self) -> list[_Part]:
        """Two parts, which read their texts again."""
        self.cache = self.mask = None
        index = torch.arange(len(self.row), device=self.row.device)
        return [self.only(half) for half in index.tensor_split(2)]


class Waves(OwnPass):
    """All rows are one part, or several where the memory does not hold them together."""

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
        self._parts: list[_Part] = []
        self._row_bytes = 0  # of the longest row of this wave
        self.open = True

    def room(self, rows: int, contexts: int, prompt: int, written: int) -> bool:
        return rows * (prompt + written) * self.token_bytes <= self.memory

    def reserve(self, rows: int, contexts: int, prompt: int, written: int, busy: bool) -> None:
        self._row_bytes = (prompt + written) * self.token_bytes

    def admit(self, rows: Sequence[int], prompts: Sequence[Prompt]) -> None:
        row = torch.arange(len(prompts), device=self.policy.device)
        self._parts = [_Part(row, [p.text for p in prompts], row.new_zeros((len(prompts), 0)))]
        self.open = False

    def move(self, source: Sequence[int], target: Sequence[int], left: int) -> None:
        old = torch.arange(sum(len(part.row) for part in self._parts), device=self.policy.device)
        new = torch.full_like(old, -1)
        old[list(target)] = old[list(source)]
        new[old[:left]] = torch.arange(left, device=old.device)
        parts = []
        for part in self._parts:
            row = new[part.row]
            order = row.argsort()
            part.row = row
            parts.append(part.only(order[row[order] >= 0]))
        self._parts = [part for part in parts if len(part.row)]
        self.open = left == 0

    def step(self, ids: Tensor, position: Tensor, length: int) -> Tensor:
        for part in self._parts:
            if part.cache is not None:
                part.written = torch.cat([part.written, ids[part.row, None]], 1)
        found = [some for part in self._parts for some in self._through(part, position)]
        self._parts = [part for part, _ in found]
        if len(found) == 1:
            return found[0][1]
        row = torch.cat([part.row for part in self._parts])
        return torch.cat([logits for _, logits in found])[row.argsort()]

    def _through(self, part: _Part, position: Tensor) -> list[tuple[_Part, Tensor]]:
        """A part and its logits; where it does not fit, those of parts of it."""
        try:
            return [(part, self._begin(part) if part.cache is None else self._go_on(part, position))]
        except RuntimeError as error:
            if len(part.row) == 1 or not out_of_memory(error):
                raise
        halves = part.halves()  # out of the handler, which holds what did not fit
        torch.cuda.empty_cache()
        self.memory = min(self.memory, len(part.row) // 2 * self._row_bytes)
        said = f"The GPU has no room for {len(part.row)} rollouts at once: from now on fewer are sampled at once."
        warnings.warn(said, stacklevel=4)
        return [some for half in halves for some in self._through(half, position)]

    def _begin(self, part: _Part) -> Tensor:
        """Read the texts of a part, each once, and give every completion its own row."""
        texts = [(*prompt, *ids) for prompt, ids in zip(part.prompts, part.written.tolist(), strict=True)]
        distinct = {text: n for n, text in enumerate(dict.fromkeys(texts))}
        ids, part.mask = padded(list(distinct), self.policy.device, left=True)
        self.stats.encoded += int(part.mask.sum())
        logits = self._forward(part, ids, (part.mask.cumsum(1) - 1).clamp(min=0))
        index = torch.tensor([distinct[text] for text in texts], device=self.policy.device)
        part.mask = part.mask.index_select(0, index)
        part.cache.batch_select_indices(index)
        return logits.index_select(0, index)

    def _go_on(self, part: _Part, position: Tensor) -> Tensor:
        assert part.mask is not None
        part.mask = torch.cat([part.mask, torch.ones_like(part.mask[:, :1])], 1)
        return self._forward(part, part.written[:, -1:], position[part.row, None])

    def _forward(self, part: _Part, ids: Tensor, position: Tensor) -> Tensor:
        places = {"position_ids": position} if self.positions else {}
        given = {"attention_mask": part.mask, "past_key_values": part.cache, "use_cache": True, **places, **self.last}
        with precision(self.policy):
            out = self.model(input_ids=ids, **given)
        part.cache = getattr(out, "past_key_values", None)
        if part.cache is None:
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
