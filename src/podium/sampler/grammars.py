"""The grammars of running completions as one table on the device, and the sets that their states allow."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import byref

import torch
from torch import Tensor

from podium.core.errors import PodiumError
from podium.core.token_sets import token_sets
from podium.policy.head.functionals import EXCLUDED
from podium.policy.native import Exclude, library, place
from podium.policy.policy import Policy
from podium.protocols.grammar import Grammar, Vocabulary
from podium.sampler.stops import Stops

__all__ = ["Grammars"]


class Grammars:
    """State 0 is that of rows without a grammar: it allows every token, and stays."""

    def __init__(self, policy: Policy, stops: Stops) -> None:
        self.policy, self.stops = policy, stops
        self.table = torch.zeros((1, policy.vocabulary), dtype=torch.int32, device=policy.device)  # next states
        self.forbidden = self.table < 0  # a byte per token, which is what each step on a GPU reads
        self._starts: dict[str, int] = {}  # by what a grammar prints as
        self._sets: dict[int, str | None] = {0: None}

    def start(self, grammar: Grammar | None, prefix: Sequence[int]) -> int:
        """The state in which a completion begins, after tokens of its turn that exist already."""
        if grammar is None:
            return 0
        if (name := repr(grammar)) not in self._starts:
            end_ids = tuple(self.policy.end_ids)
            words = Vocabulary(self.stops.texts, self.policy.vocabulary, end_ids, self.stops.special)
            own = torch.from_numpy(grammar.table(words)).to(self.table.device)
            self._starts[name] = len(self.table)
            self.table = torch.cat([self.table, own.where(own < 0, own + len(self.table))])
            self.forbidden = self.table < 0
        state = self._starts[name]
        for token in prefix:
            state = int(self.table[state, token])
            if state < 0:
                text = self.policy.text(prefix)
                raise PodiumError(f"A turn begins with {text!r}, which its grammar does not allow: change one of them.")
        return state

    def exclude(self, logits: Tensor, states: Tensor) -> Tensor:
        """Logits [n, V] without the tokens that states forbid."""
        kernels = library()
        if kernels is None or logits.device.type != "cpu" or logits.dtype != torch.float32:
            return logits.masked_fill_(self.forbidden.index_select(0, states), EXCLUDED)
        places = (place(x) for x in (logits, self.table, states))
        kernels.podium_exclude(byref(Exclude(*places, *logits.shape, EXCLUDED)))
        return logits

    def after(self, states: Tensor, tokens: Tensor) -> Tensor:
        """[n] the states after these tokens."""
        return self.table[states, tokens].long().clamp(min=0)

    def allowed(self, state: int) -> str | None:
        """The set of tokens that a state allows; None: all."""
        if state not in self._sets:
            kept = (self.table[state : state + 1] >= 0).cpu().numpy()
            self._sets[state] = None if kept.all() else token_sets(kept)[0]
        return self._sets[state]
