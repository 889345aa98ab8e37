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


class Bigram(nn.Module):
    """The distribution of a token given the one before it and its place, in float64.

    `logp` and `entropy` are those of the distribution; any other signal is a fixed direction of the hidden state.
    """

    def __init__(self, width: int = 6, seed: int = 0) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)

        def weights(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.randn(*shape, generator=generator, dtype=torch.float64) / 2)

        self.embedding, self.place, self.head = weights(VOCABULARY, width), weights(width), weights(width, VOCABULARY)

    def forward(self, batch: Batch, signals: Sequence[Signal]) -> Mapping[Signal, Tensor]:
        ids = batch["token.id"]
        before = batch.shift(ids, "token", "rollout", by=1, fill=0)
        place = torch.log1p(batch.position("token").double())
        hidden = torch.tanh(self.embedding[before] + place[:, None] * self.place)
        logp = (hidden @ self.head).log_softmax(-1)
        return {signal: self._signal(signal, batch, hidden, logp, ids) for signal in signals}

    def _signal(self, signal: Signal, batch: Batch, hidden: Tensor, logp: Tensor, ids: Tensor) -> Tensor:
        if signal.name == "logp" and not signal.settings:
            value = logp.gather(1, ids[:, None])[:, 0]
        elif signal.name == "entropy" and not signal.settings:
            value = -(logp.exp() * logp).sum(-1)
        elif signal.name == "logp_of":
            tokens = batch[dict(signal.settings)["tokens"]][..., 0].long()
            value = logp.gather(1, tokens.clamp(max=VOCABULARY - 1))
        else:
            digest = hashlib.blake2b(signal.column.encode(), digest_size=7).digest()
            generator = torch.Generator().manual_seed(int.from_bytes(digest, "little"))
            value = hidden @ torch.randn(hidden.shape[1], generator=generator, dtype=torch.float64)
        return value if signal.level == "token" else batch.reduce(value, "token", signal.level, "mean")

    def gradient(self) -> Tensor:
        """All parameters' gradients as one vector."""
        return torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).reshape(-1) for p in self.parameters()])
