"""A critic: a model with a value head, which predicts the return to come."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

import torch
from torch import Tensor, nn

from podium.policy.policy import Policy

__all__ = ["Critic", "ValueHeads", "critic", "linear_head", "reward_model", "rescale"]


class Critic(Policy):
    """A policy's model with a value head, for the signal `value`: the value of the state before each token."""

    def __init__(
        self,
        model: nn.Module,
        tokenizer: Any,
        *,
        name: str = "",
        notes: Sequence[str] = (),
        value_head: nn.Module | None = None,
    ) -> None:
        super().__init__(model, tokenizer, name=name, notes=notes)
        if value_head is None:
            value_head = linear_head(self.config.hidden_size, 1).to(self.device, self.dtype)
        self.value_head = value_head

    @property
    def _value_head(self) -> Callable[[Tensor], Tensor]:
        dtype = next(self.value_head.parameters()).dtype  # which may be higher than that of the states
        return lambda hidden: self.value_head(hidden.to(dtype))

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        yield from self.model.named_parameters()
        yield from self.value_head.named_parameters("value_head")

    def _like(self, model: nn.Module) -> Self:
        return type(self)(model, self.tokenizer, name=self.name, value_head=copy.deepcopy(self.value_head))


class ValueHeads(nn.Module):
    """An ensemble of value heads on the same state.

    Their first layers are initialised differently, or the heads would stay identical. Their last layers start at 0, as
    a single head does.
    """

    def __init__(self, width: int, count: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        inner = max(width // 4, 1)
        self.heads = nn.ModuleList(
            nn.Sequential(nn.Linear(width, inner), nn.GELU(), nn.Linear(inner, 1)) for _ in range(count)
        )
        generator = torch.Generator().manual_seed(0)
        for name, parameter in self.heads.named_parameters():
            first = name.endswith("0.weight")
            nn.init.normal_(parameter, std=parameter.shape[-1] ** -0.5 if first else 0.0, generator=generator)

    def forward(self, hidden: Tensor) -> Tensor:
        """[N, count] the value by each head."""
        normed = self.norm(hidden)
        return torch.cat([head(normed) for head in self.heads], -1)


def linear_head(width: int, count: int) -> nn.Linear:
    """A linear head of so many values. It starts at 0: before training every value is 0."""
    head = nn.Linear(width, count)
    nn.init.zeros_(head.weight)
    nn.init.zeros_(head.bias)
    return head


@torch.no_grad()
def rescale(head: nn.Module, scale: Tensor, shift: Tensor) -> None:
    """Let a head give scale · v + shift in place of its values v, with one scale and one shift for each."""
    layers: list[nn.Linear] = [head] if isinstance(head, nn.Linear) else [h[-1] for h in head.heads]  # type: ignore
    scales, shifts = scale.reshape(len(layers), -1), shift.reshape(len(layers), -1)
    for layer, s, b in zip(layers, scales, shifts, strict=True):
        layer.weight.mul_(s[:, None].to(layer.weight))
        layer.bias.mul_(s.to(layer.bias)).add_(b.to(layer.bias))


def reward_model(policy: Policy, heads: int = 1, *, network: bool = False) -> Critic:
    """A model that scores whole texts, from a policy's weights, which it takes over: a linear head on its states, or
    with `network` a small network, for states that are not trained."""
    width = policy.config.hidden_size
    head = ValueHeads(width, heads) if network else linear_head(width, heads)
    return Critic(policy.model, policy.tokenizer, name=policy.name, value_head=head.to(policy.device, policy.dtype))


def critic(policy: Policy, heads: int = 1) -> Critic:
    """A critic that starts from a policy's weights."""
    head = None if heads == 1 else ValueHeads(policy.config.hidden_size, heads).to(policy.device, policy.dtype)
    return Critic(copy.deepcopy(policy.model), policy.tokenizer, name=policy.name, value_head=head)
