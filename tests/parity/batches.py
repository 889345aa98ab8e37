"""Random batches in the neighbours' padded layout, and what Podium makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from podium.core.batch import Batch
from podium.core.term import Term
from podium.method import Method

# The neighbours' functions and ours do the same arithmetic in another order.
SAME = 1e-12
LAYOUTS = ("full", "ragged", "holes", "empty")


@dataclass(frozen=True)
class Padded:
    """What a trainer of the neighbours holds: [B, T] tensors with a mask, and the group of each row."""

    mask: Tensor  # 1 at the model's tokens
    group: list[str]
    reward: Tensor  # [B]
    token_reward: Tensor
    old: Tensor
    now: Tensor
    ref: Tensor
    value: Tensor
    new_value: Tensor
    returns: Tensor
    advantage: Tensor

    def batch(self, now: Tensor | None = None) -> Batch:
        """The same as a batch; with `now`, gradients flow back to its [B, T]."""
        columns = {
            "rollout.reward": self.reward,
            "token.old.logp": self.old,
            "token.ref.logp": self.ref,
            "token.old.value": self.value,
            "token.return": self.returns,
            "token.advantage": self.advantage,
        }
        return Batch.from_padded(self.mask, self.group, columns if now is None else columns | {"token.now.logp": now})

    def outcome(self) -> Tensor:
        """[B, T] each reward at the last token of its row, where the neighbours keep it."""
        place = torch.arange(1, self.mask.shape[1] + 1)
        last = (self.mask * place).argmax(1)
        return torch.zeros_like(self.mask).index_put((torch.arange(len(last)), last), self.reward)


def random_padded(seed: int, layout: str, groups: Sequence[int] = (1, 2, 3, 4, 6), width: int = 9) -> Padded:
    """Groups of the given sizes with their rows shuffled into each other.

    Layouts: `full` rows; `ragged` ones; `holes`, where tokens of the world stand between the model's; `empty`, ragged
    with an answer that has no tokens.
    """
    g = torch.Generator().manual_seed(seed)
    rows = sum(groups)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=g, dtype=torch.float64)

    length = torch.randint(2, width + 1, (rows,), generator=g)
    mask = (torch.arange(width) < length[:, None]).double()
    if layout == "full":
        mask = torch.ones(rows, width, dtype=torch.float64)
    if layout == "holes":
        mask = mask * (torch.rand(rows, width, generator=g) < 0.6)
        mask[:, 0] = 1
    if layout == "empty":
        mask[3] = 0
    names = [f"task {number}" for number, size in enumerate(groups) for _ in range(size)]
    reward = normal(rows)
    reward[torch.rand(rows, generator=g) < 0.3] = 0  # some fail
    old = -2 * torch.rand(rows, width, generator=g, dtype=torch.float64)
    value = normal(rows, width)
    return Padded(
        mask=mask,
        group=[names[i] for i in torch.randperm(rows, generator=g).tolist()],
        reward=reward,
        token_reward=normal(rows, width) * mask,
        old=old,
        now=old + 0.7 * normal(rows, width),  # far enough to meet every clip
        ref=old + 0.5 * normal(rows, width),
        value=value,
        new_value=value + normal(rows, width),
        returns=normal(rows, width),
        advantage=normal(rows, width) * mask,
    )


def credited(method: Method, batch: Batch) -> Tensor:
    """[B, T] advantages after the reward, advantage and shape stages of a method."""
    batch = batch.without(["token.advantage"])
    for part in (*method.annotate, *method.reward, method.advantage, *method.shape):
        assert part is not None
        batch = batch.with_columns(part(batch))
    return batch.to_padded(batch["token.advantage"])


def loss_and_gradient(method: Method, padded: Padded, terms: Sequence[Term] | None = None) -> tuple[Tensor, Tensor]:
    """The objective of a method with the given advantages, after its live parts, and its gradient by [B, T] `now`."""
    now = padded.now.clone().requires_grad_()
    batch = padded.batch(now)
    for part in method.shape:
        if part.live:
            batch = batch.with_columns(part(batch))
    loss = torch.stack([term(batch) for term in (method.objective if terms is None else terms)]).sum()
    return loss.detach(), torch.autograd.grad(loss, now)[0]


def agree(ours: Tensor, theirs: Tensor, tolerance: float = SAME) -> None:
    """Equal to `tolerance`, absolute and relative."""
    assert ours.dtype == torch.float64
    torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance)
