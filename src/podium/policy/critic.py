"""A critic: a model whose head says how much reward is still to come."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any, Self

from torch import nn

from podium.policy.policy import Policy

__all__ = ["Critic", "critic"]


class Critic(Policy):
    """A policy's body with a value head, for the signal `value`: the value of the state before each token."""

    def __init__(
        self,
        model: nn.Module,
        tokenizer: Any,
        *,
        name: str = "",
        notes: Sequence[str] = (),
        value_head: nn.Linear | None = None,
    ) -> None:
        super().__init__(model, tokenizer, name=name, notes=notes)
        if value_head is None:
            value_head = nn.Linear(self.config.hidden_size, 1, device=self.device, dtype=self.dtype)
            # It starts at 0: before it has learned anything, it says nothing.
            nn.init.zeros_(value_head.weight)
            nn.init.zeros_(value_head.bias)
        self.value_head = value_head

    @property
    def _value_head(self) -> nn.Module:
        return self.value_head

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        yield from self.model.named_parameters()
        yield from self.value_head.named_parameters("value_head")

    def _like(self, model: nn.Module) -> Self:
        return type(self)(model, self.tokenizer, name=self.name, value_head=copy.deepcopy(self.value_head))


def critic(policy: Policy) -> Critic:
    """A critic that starts from a policy's weights."""
    return Critic(copy.deepcopy(policy.model), policy.tokenizer, name=policy.name)
