"""A small network that looks at a policy's hidden states: only its own weights are learned and saved."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import nn

from podium.policy.policy import Policy

__all__ = ["View"]

FILE = "network.safetensors"


class View(Policy):
    """A policy seen through a network; nothing flows back into the policy."""

    def __init__(self, base: Policy, network: nn.Module) -> None:
        self.__dict__.update(base.__dict__)  # the same model and words, not a copy
        self.version = 0
        self.network = network.to(base.device, torch.float32)

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        return self.network.named_parameters()

    def save(self, path: str | Path) -> None:
        Path(path).mkdir(parents=True, exist_ok=True)
        save_file({name: p.detach() for name, p in self.named_parameters()}, Path(path) / FILE)

    def load(self, path: str | Path) -> None:
        self.network.load_state_dict(load_file(Path(path) / FILE))
        self.bump()
