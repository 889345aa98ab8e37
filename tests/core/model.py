"""A small recurrent policy with a value head, a critic of its own, and an update with everything in it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from podium.core import Batch, Signal
from podium.core.columns import Origin, Purpose

VOCABULARY = 11
NOW, OLD, REF = Signal("logp", of="now", grad=True), Signal("logp", of="old"), Signal("logp", of="ref")


class Policy(nn.Module):
    """log-probabilities, entropies and values of tokens that follow one another within a rollout."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.embedding = nn.Embedding(VOCABULARY + 1, 6)
        self.recurrent = nn.GRU(6, 7, batch_first=True)
        self.logits = nn.Linear(7, VOCABULARY)
        self.value = nn.Linear(7, 1)
        self.double()
        self.calls: list[list[int]] = []  # the rows of the update that each forward saw

    def signals(self, batch: Batch) -> dict[str, Tensor]:
        row, place = batch.link("token", "rollout"), batch.position("token")
        width = int(place.max()) + 1 if len(place) else 1
        before = batch.shift(batch["token.id"], "token", "rollout", fill=VOCABULARY)
        padded = before.new_zeros(len(batch), width).index_put((row, place), before)
        hidden = self.recurrent(self.embedding(padded))[0][row, place]
        logp = self.logits(hidden).log_softmax(-1)
        return {
            "logp": logp.gather(1, batch["token.id"][:, None])[:, 0],
            "entropy": -(logp.exp() * logp).sum(-1),
            "value": self.value(hidden)[:, 0],
        }

    def __call__(self, batch: Batch, signals: Sequence[Signal]) -> dict[Signal, Tensor]:
        if "rollout.row" in batch:
            self.calls.append(batch["rollout.row"].tolist())
        found = self.signals(batch)
        return {signal: found[signal.name] for signal in signals}

    def gradient(self) -> list[Tensor]:
        return [torch.zeros_like(p) if p.grad is None else p.grad.clone() for p in self.parameters()]


def update(seed: int = 0) -> Batch:
    """Four groups of unequal size with turns, given tokens, an empty rollout, a demonstration, weights and drops."""
    torch.manual_seed(seed)
    group = [0, 1, 0, 2, 1, 0, 2, 3, 2, 2, 1]
    turns = [[3, 2], [4], [1, 2, 2], [5], [], [2, 3], [4], [3], [6], [2], [1, 3]]
    turn = [r for r, lengths in enumerate(turns) for _ in lengths]
    token = [t for t, n in enumerate(n for lengths in turns for n in lengths) for _ in range(n)]
    links = {("token", "turn"): token, ("turn", "rollout"): turn, ("rollout", "group"): group}
    batch = Batch({key: torch.tensor(index) for key, index in links.items()}, seed=7)
    n, rollouts = batch.size("token"), len(batch)
    origin = torch.where(torch.rand(n) < 0.15, int(Origin.given), int(Origin.policy))
    purpose = torch.tensor([int(Purpose.train)] * 8 + [int(Purpose.demo), int(Purpose.probe), int(Purpose.train)])
    columns = {
        "token.id": torch.randint(0, VOCABULARY, (n,)),
        "token.origin": origin.to(torch.int8),
        "token.return": torch.randn(n).double(),
        "token.demonstrated": (purpose == Purpose.demo)[batch.link("token", "rollout")],
        "token.weight.age": torch.rand(n).double() + 0.5,
        "token.low": torch.rand(n).double() * 0.1,
        "rollout.reward": torch.tensor([1.0, 0, 0, 1, 1, 0, 0, 1, 0, 0, 0]).double(),
        "rollout.advantage": torch.randn(rollouts).double(),
        "rollout.purpose": purpose,
        "rollout.keep": torch.arange(rollouts) != 5,
    }
    batch = batch.with_columns(columns)
    policy = Policy().signals(batch)
    nearby = {source: policy["logp"].detach() + 0.2 * torch.randn(n).double() for source in ("old", "ref")}
    return batch.with_columns(
        {f"token.{source}.logp": x for source, x in nearby.items()}
        | {"token.old.value": policy["value"].detach() + 0.4 * torch.randn(n).double()}
    )
