"""A quality head: the probability that a rollout succeeds, predicted from the hidden state of one of its tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from podium.core.batch import Batch
from podium.core.signal import Signal
from podium.policy.policy import Policy
from podium.policy.roles.hidden_head import HiddenHead

__all__ = ["QualityHead"]

WIDTH = 128  # of the hidden layer, at most


class QualityHead(HiddenHead):
    """A two-layer network on the hidden states of a policy.

    Signal [token]: `quality`, the log-odds at the tokens of `token.detect`; 0 elsewhere.
    """

    kind = "quality head"
    names = ("quality",)

    def __init__(self, base: Policy) -> None:
        width = base.config.hidden_size
        inner = min(width, WIDTH)
        network = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, inner), nn.SiLU(), nn.Linear(inner, 1))
        generator = torch.Generator().manual_seed(0)
        for name, parameter in network.named_parameters():
            if parameter.dim() == 2:  # the last layer starts at 0: before training it predicts 1/2
                nn.init.normal_(parameter, std=0.0 if name.startswith("3") else width**-0.5, generator=generator)
        nn.init.zeros_(network[1].bias)  # type: ignore[arg-type]
        nn.init.zeros_(network[3].bias)  # type: ignore[arg-type]
        super().__init__(base, network)

    def logits(self, contexts: Sequence[Sequence[int]], texts: Sequence[Sequence[int]], grad: bool = False) -> Tensor:
        """[text] the log-odds after the last token of each text."""
        if not texts:
            return torch.zeros(0, device=self.device)
        states = Policy.states(self, [(*c, *t) for c, t in zip(contexts, texts, strict=True)])
        last = torch.stack([x[-1] for x in states]).float()
        with torch.set_grad_enabled(grad):
            log_odds: Tensor = self.own(last).squeeze(-1)
            return log_odds

    def score(
        self,
        contexts: Sequence[Sequence[int]],
        targets: Sequence[Sequence[int]],
        *,
        name: str = "quality",
        temperature: float = 1.0,
        grad: bool = False,
        **settings: Any,
    ) -> list[Tensor]:
        """[1] per text the predicted probability of success after its last token."""
        if name not in self.names:
            raise self.refusal(name)
        return list(self.logits(contexts, targets, grad).sigmoid()[:, None])

    def of_tokens(
        self, batch: Batch, signals: Sequence[Signal], temperature: float, grad: bool
    ) -> dict[Signal, Tensor]:
        asked = batch["token.detect"].nonzero().reshape(-1)
        turn = batch.link("token", "turn")[asked]
        lengths = (batch.position("token", "turn")[asked] + 1).tolist()
        starts = (asked - torch.tensor(lengths, device=asked.device) + 1).tolist()
        ids = batch["token.id"].tolist()
        texts = [tuple(ids[start : start + length]) for start, length in zip(starts, lengths, strict=True)]
        contexts = [batch["turn.train_context"][t] for t in turn.tolist()]
        whole = torch.zeros(batch.size("token"), dtype=batch.dtype, device=batch.device)
        wants = grad and any(s.grad for s in signals)
        log_odds = self.logits(contexts, texts, wants).to(batch.device, batch.dtype)
        value = whole.index_copy(0, asked, log_odds)
        return {s: value if s.grad else value.detach() for s in signals}
