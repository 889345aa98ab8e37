"""A small real policy: signals with a graph that leads to parameters."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from podium.core.batch import Batch
from podium.core.signal import Signal
from podium.testing.synthetic import VOCABULARY

__all__ = ["Bigram"]

PLACES = 32  # that are told apart: all later ones count as the last


class Bigram(nn.Module):
    """The distribution of a token given the one before it and its place, in float64.

    `logp` and `entropy` are those of the distribution; any other signal is a fixed direction of the hidden state. All
    states are computed in one table, whatever the batch: the last bits of a product depend on its number of rows, and
    tokens in the same state must have the same signals in every part of an update.
    """

    def __init__(self, width: int = 6, seed: int = 0) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)

        def weights(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.randn(*shape, generator=generator, dtype=torch.float64) / 2)

        self.embedding, self.place, self.head = weights(VOCABULARY, width), weights(width), weights(width, VOCABULARY)

    def forward(self, batch: Batch, signals: Sequence[Signal]) -> Mapping[Signal, Tensor]:
        before = batch.shift(batch["token.id"], "token", "rollout", by=1, fill=0)
        state = before * PLACES + batch.position("token").clamp(max=PLACES - 1)
        place = torch.arange(PLACES, dtype=torch.float64).log1p()[:, None] * self.place
        hidden = torch.tanh(self.embedding[:, None] + place).flatten(0, 1)  # [state, width]
        logp = (hidden @ self.head).log_softmax(-1)
        return {signal: self._signal(signal, batch, hidden, logp, state) for signal in signals}

    def _signal(self, signal: Signal, batch: Batch, hidden: Tensor, logp: Tensor, state: Tensor) -> Tensor:
        if signal.name == "logp" and not signal.settings:
            value = logp[state, batch["token.id"]]
        elif signal.name == "entropy" and not signal.settings:
            value = -(logp.exp() * logp).sum(-1)[state]
        elif signal.name == "logp_of":
            tokens = batch[dict(signal.settings)["tokens"]][..., 0].long()
            value = logp[state].gather(1, tokens.clamp(max=VOCABULARY - 1))
        else:
            digest = hashlib.blake2b(signal.column.encode(), digest_size=7).digest()
            generator = torch.Generator().manual_seed(int.from_bytes(digest, "little"))
            value = (hidden @ torch.randn(hidden.shape[1], generator=generator, dtype=torch.float64))[state]
        return value if signal.level == "token" else batch.reduce(value, "token", signal.level, "mean")

    def gradient(self) -> Tensor:
        """All parameters' gradients as one vector."""
        return torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).reshape(-1) for p in self.parameters()])
