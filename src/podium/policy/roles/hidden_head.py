"""The base of small networks on a policy's hidden states: only their own weights are trained and saved."""

from __future__ import annotations

import torch
from torch import nn

from podium.policy.policy import Policy
from podium.policy.small_network import SmallNetwork

__all__ = ["HiddenHead"]


class HiddenHead(SmallNetwork):
    """A network on the hidden states of a policy; no gradient flows back into the policy."""

    file = "network.safetensors"

    def __init__(self, base: Policy, network: nn.Module) -> None:
        self.__dict__.update(base.__dict__)  # it shares the base's model and tokenizer
        self.version = 0
        self.own = network.to(base.device, torch.float32)
