"""Where a completion ends, and its stop reason: end-of-turn tokens, stop strings, length limits."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import torch

from podium.policy.policy import Policy
from podium.protocols.sampling import Generate, Stop

__all__ = ["Stops"]

Ids = tuple[int, ...]


class Stops:
    """For every set of stop strings, the tokens that may complete one: text is only decoded after these."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self._sets: dict[tuple[str, ...], int] = {}
        # [sets, vocabulary] 2: the token ends a completion; 1: it may complete a stop string. The first row is for rows
        # of a batch without a completion.
        self.table = torch.zeros((1, policy.vocabulary), dtype=torch.int8, device=policy.device)
        self._host = [np.zeros(policy.vocabulary, dtype=np.int8)]  # the same on the host

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

    def end(self, request: Generate, limit: int, ids: Ids, seen: int) -> tuple[Ids, Stop] | None:
        """The ids of a completion up to its end and the stop reason; None if it goes on.

        It may have `limit` tokens; the first `seen` are known not to end it.
        """
        may_end = self._host[self._sets[request.sampling.stop]]
        for n in range(seen + 1, len(ids) + 1):
            if n == limit or may_end[ids[n - 1]]:
                reason = self._reason(request, limit, ids[:n])
                if reason is not None:
                    return ids[:n], reason
        return None

    def _reason(self, request: Generate, limit: int, ids: Ids) -> Stop | None:
        if ids[-1] in self.policy.end_ids:
            return Stop.end
        if request.sampling.stop and self._met(request.sampling.stop, request.prefix, ids):
            return Stop.text
        if len(ids) < limit:
            return None
        return Stop.length if limit == request.sampling.max_tokens else Stop.context

    def _completing(self, text: str) -> list[int]:
        """Tokens that may complete `text`: those that contain its last character."""
        if text in self.special:
            return [self.special[text]]
        last = text[-1]
        # A character outside ASCII may be split over tokens that decode to U+FFFD on their own.
        broken = "\ufffd" if ord(last) > 127 else last
        return [i for i, t in enumerate(self.texts) if last in t or broken in t]

    @cached_property
    def special(self) -> dict[str, int]:
        """Ids of special tokens, which do not appear in decoded text, by name."""
        return {str(token): i for i, token in self.policy.tokenizer.added_tokens_decoder.items() if token.special}

    @cached_property
    def texts(self) -> list[str]:
        """The text of each token. It is decoded after a letter: some tokenizers drop a leading space."""
        tokenizer = self.policy.tokenizer
        anchor: list[int] = tokenizer("a", add_special_tokens=False)["input_ids"]
        begin = len(self.policy.text(anchor))
        count = min(len(tokenizer), self.policy.vocabulary)
        return [self.policy.text([*anchor, i])[begin:] for i in range(count)]

    def _met(self, stop: Sequence[str], prefix: Sequence[int], ids: Sequence[int]) -> bool:
        """Whether the last of `ids`, written after `prefix`, completes a stop string."""
        if any(self.special.get(s) == ids[-1] for s in stop):
            return True
        text = self.policy.text([*prefix, *ids])
        begin = len(self.policy.text(prefix)) if prefix else 0
        return any(text.find(s, max(0, begin - len(s) + 1)) >= 0 for s in stop)
