"""When a completion ends by what was written: end-of-turn tokens and stop strings."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import torch

from podium.policy.policy import Policy

__all__ = ["Stops"]


class Stops:
    """Knows for every set of stop strings which tokens may complete one, so that text is only looked at then."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self._sets: dict[tuple[str, ...], int] = {}
        # [sets, vocabulary] which tokens end a completion (2), and after which to look closer (1). The first row is for
        # rows of a batch that write nothing.
        self.table = torch.zeros((1, policy.vocabulary), dtype=torch.int8, device=policy.device)
        self._host = [np.zeros(policy.vocabulary, dtype=np.int8)]  # the same

    def row(self, stop: tuple[str, ...]) -> int:
        """The row of `table` for these stop strings."""
        if stop not in self._sets:
            mask = np.zeros(self.policy.vocabulary, dtype=np.int8)
            for text in stop:
                mask[self._completing(text)] = 1
            mask[list(self.policy.end_ids)] = 2
            self._host.append(mask)
            self.table = torch.cat([self.table, torch.from_numpy(mask)[None].to(self.table.device)])
            self._sets[stop] = len(self.table) - 1
        return self._sets[stop]

    def may_end(self, stop: tuple[str, ...], token: int) -> bool:
        """Whether a completion may end with this token."""
        return bool(self._host[self._sets[stop]][token])

    def _completing(self, text: str) -> list[int]:
        """Tokens with which `text` may be complete: those that hold its last character."""
        if text in self._special:
            return [self._special[text]]
        last = text[-1]
        # A character outside ASCII may be spread over tokens that are no text on their own.
        broken = "\ufffd" if ord(last) > 127 else last
        return [i for i, t in enumerate(self._texts) if last in t or broken in t]

    @cached_property
    def _special(self) -> dict[str, int]:
        """Special tokens, which never show in the text, by what they are called."""
        return {str(token): i for i, token in self.policy.tokenizer.added_tokens_decoder.items() if token.special}

    @cached_property
    def _texts(self) -> list[str]:
        """What each token adds to a text. After a letter: some tokenizers drop a space at the very beginning."""
        tokenizer = self.policy.tokenizer
        anchor: list[int] = tokenizer("a", add_special_tokens=False)["input_ids"]
        begin = len(self.policy.text(anchor))
        count = min(len(tokenizer), self.policy.vocabulary)
        return [self.policy.text([*anchor, i])[begin:] for i in range(count)]

    def met(self, stop: Sequence[str], prefix: Sequence[int], ids: Sequence[int]) -> bool:
        """Whether the last of `ids`, written after `prefix`, completes a stop string."""
        if any(self._special.get(s) == ids[-1] for s in stop):
            return True
        text = self.policy.text([*prefix, *ids])
        begin = len(self.policy.text(prefix)) if prefix else 0
        return any(text.find(s, max(0, begin - len(s) + 1)) >= 0 for s in stop)
