"""The engine for any Hugging Face model with a KV cache: the model's own forward pass over a padded batch of rows.

Rows leave at any step; new ones join when none is left.
"""

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
from podium.sampler.row_engine import HFEngine, Prompt, Stats, memory_for

__all__ = ["HFBatchedEngine"]

Ids = tuple[int, ...]


@dataclass
class _Part:
    """Rows that go through the model in one batch."""

    row: Tensor  # [part's row] row numbers, ascending
    prompts: list[Ids]
    written: Tensor  # [part's row, token] after the prompts
    cache: Any = None  # a Hugging Face cache, padded on the left; None: their texts have not been encoded
    mask: Tensor | None = None  # [part's row, token] which of its tokens are real
    shift: Tensor | None = None  # [part's row] how much further on positions are than the numbers of tokens

    def only(self, index: Tensor) -> _Part:
        """Some of its rows, which keep their part of the cache; this part must not be used any more."""
        if self.cache is not None:
            self.cache.batch_select_indices(index)
        prompts = [self.prompts[i] for i in index.tolist()]
        mask = None if self.mask is None else self.mask.index_select(0, index)
        shift = None if self.shift is None else self.shift.index_select(0, index)
        return _Part(self.row[index], prompts, self.written.index_select(0, index), self.cache, mask, shift)

    def halves(self) -> list[_Part]:
        """Its rows as two parts, which encode their texts again."""
        self.cache = self.mask = self.shift = None
        index = torch.arange(len(self.row), device=self.row.device)
        return [self.only(half) for half in index.tensor_split(2)]


class HFBatchedEngine(HFEngine):
    """All rows are one batch, or several where the memory does not hold them together."""

    prefill_ahead = 4096

    def __init__(self, policy: Policy, stats: Stats, memory: int | None = None) -> None:
        self.policy, self.stats = policy, stats
        self.memory = memory_for(policy.device, memory)
        self.model: Any = policy.model
        self.token_bytes = _token_bytes(policy)
        accepted = inspect.signature(self.model.forward).parameters
        self.positions = "position_ids" in accepted
        # Of a prompt only the last logits are needed.
        self.last: dict[str, Any] = {"logits_to_keep": 1} if "logits_to_keep" in accepted else {}
        self._parts: list[_Part] = []
        self._row_bytes = 0  # of the longest row of this batch
        self.open = True

    def fits(self, rows: int, contexts: int, prompt: int, written: int) -> bool:
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
        results = [result for part in self._parts for result in self._through(part, position)]
        self._parts = [part for part, _ in results]
        if len(results) == 1:
            return results[0][1]
        row = torch.cat([part.row for part in self._parts])
        return torch.cat([logits for _, logits in results])[row.argsort()]

    def _through(self, part: _Part, position: Tensor) -> list[tuple[_Part, Tensor]]:
        """A part and its logits; where it does not fit in memory, its halves and theirs."""
        try:
            return [(part, self._begin(part) if part.cache is None else self._continue(part, position))]
        except RuntimeError as error:
            if len(part.row) == 1 or not out_of_memory(error):
                raise
        halves = part.halves()  # outside the handler, which still refers to the tensors that did not fit
        torch.cuda.empty_cache()
        self.memory = min(self.memory, len(part.row) // 2 * self._row_bytes)
        message = f"The GPU has no room for {len(part.row)} rollouts at once: from now on fewer are sampled at once."
        warnings.warn(message, stacklevel=4)
        return [result for half in halves for result in self._through(half, position)]

    def _begin(self, part: _Part) -> Tensor:
        """Prefill: encode each distinct text of a part once, and give every completion its own row of the cache."""
        texts = [(*prompt, *ids) for prompt, ids in zip(part.prompts, part.written.tolist(), strict=True)]
        distinct = {text: n for n, text in enumerate(dict.fromkeys(texts))}
        ids, part.mask = padded(list(distinct), self.policy.device, left=True)
        self.stats.encoded += int(part.mask.sum())
        logits = self._forward(part, ids, (part.mask.cumsum(1) - 1).clamp(min=0))
        index = torch.tensor([distinct[text] for text in texts], device=self.policy.device)
        part.shift = self.policy.shifts(ids, part.mask).index_select(0, index)
        part.mask = part.mask.index_select(0, index)
        part.cache.batch_select_indices(index)
        return logits.index_select(0, index)

    def _continue(self, part: _Part, position: Tensor) -> Tensor:
        """Decode one more token of each row."""
        assert part.mask is not None
        assert part.shift is not None
        part.mask = torch.cat([part.mask, torch.ones_like(part.mask[:, :1])], 1)
        return self._forward(part, part.written[:, -1:], (position[part.row] + part.shift)[:, None])

    def _forward(self, part: _Part, ids: Tensor, position: Tensor) -> Tensor:
        assert part.mask is not None
        given = self.policy.inputs(ids, part.mask, position if self.positions else None)
        with precision(self.policy):
            out = self.model(**given, past_key_values=part.cache, use_cache=True, **self.last)
        part.cache = getattr(out, "past_key_values", None)
        if part.cache is None:
            raise PodiumError(f"{self.policy.name} keeps no keys and values between tokens: it cannot be sampled from.")
        logits: Tensor = out.logits[:, -1]
        return logits


def _token_bytes(policy: Policy) -> int:
    """Bytes of a token's keys and values, with one layer more: a step writes a layer's new cache beside the old one."""
    config = policy.config
    heads = getattr(config, "num_attention_heads", None) or 1
    shared = getattr(config, "num_key_value_heads", None) or heads
    size = getattr(config, "head_dim", None) or config.hidden_size // heads
    return int(2 * (config.num_hidden_layers + 1) * shared * size * (policy.lower or policy.dtype).itemsize)
