"""The engine for a model without a usable KV cache: the whole text goes through the model for every token. Correct for
any causal language model, and slow."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from podium.policy.forward.padded import precision
from podium.policy.head.functionals import CHUNK
from podium.policy.policy import Policy
from podium.sampler.row_engine import HFEngine, Prompt, Stats

__all__ = ["UncachedEngine"]


class UncachedEngine(HFEngine):
    """Rows of token ids, padded on the right."""

    prefill_ahead = 0  # there is no prefill
    open = True

    def __init__(self, policy: Policy, stats: Stats) -> None:
        self.policy, self.stats = policy, stats
        self.model: Any = policy.model
        self.selects_logits = "logits_to_keep" in inspect.signature(self.model.forward).parameters
        self._text = torch.zeros((0, 0), dtype=torch.long, device=policy.device)

    def fits(self, rows: int, contexts: int, prompt: int, written: int) -> bool:
        return True

    def reserve(self, rows: int, contexts: int, prompt: int, written: int, busy: bool) -> None:
        old = self._text
        if rows > old.shape[0] or prompt + written > old.shape[1]:
            self._text = old.new_zeros((max(rows, old.shape[0]), max(prompt + written, old.shape[1])))
            self._text[: old.shape[0], : old.shape[1]] = old

    def admit(self, rows: Sequence[int], prompts: Sequence[Prompt]) -> None:
        for row, prompt in zip(rows, prompts, strict=True):
            self._text[row, : len(prompt.text)] = torch.tensor(prompt.text, device=self._text.device)

    def move(self, source: Sequence[int], target: Sequence[int], left: int) -> None:
        self._text[list(target)] = self._text[list(source)]

    def step(self, ids: Tensor, position: Tensor, length: int) -> Tensor:
        text = self._text[: len(ids), :length]
        text.scatter_(1, position[:, None], ids[:, None])
        self.stats.encoded += text.numel()
        # As many rows at a time as keep the logits below CHUNK, as in training.
        rows = max(1, CHUNK // (length * self.policy.vocabulary))
        parts = zip(torch.split(text, rows), torch.split(position, rows), strict=True)
        return torch.cat([self._logits(*part) for part in parts])

    def _logits(self, text: Tensor, position: Tensor) -> Tensor:
        """[rows, vocabulary] after the tokens at `position`; what follows them is masked."""
        mask = (torch.arange(text.shape[1], device=text.device) <= position[:, None]).long()
        places, at = torch.unique(position, return_inverse=True)
        kept = {"logits_to_keep": places} if self.selects_logits else {}
        with precision(self.policy):
            out = self.model(**self.policy.inputs(text, mask), use_cache=False, **kept)
        logits: Tensor = out.logits[
            torch.arange(len(text), device=text.device), at if self.selects_logits else position
        ]
        return logits
