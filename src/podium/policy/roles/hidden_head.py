"""The base of small networks on a policy's hidden states: only their own weights are trained and saved."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from podium.core.batch import Batch
from podium.core.errors import PodiumError, nearest
from podium.core.signal import Signal
from podium.policy.model.finite import check_finite
from podium.policy.policy import Policy
from podium.store.tables import read_tensors

__all__ = ["HiddenHead"]

FILE = "network.safetensors"


class HiddenHead(Policy, ABC):
    """A network on the hidden states of a policy; no gradient flows back into the policy."""

    kind: ClassVar[str]  # for error messages
    names: ClassVar[tuple[str, ...]]  # the signals that it computes

    def __init__(self, base: Policy, network: nn.Module) -> None:
        self.__dict__.update(base.__dict__)  # it shares the base's model and tokenizer
        self.version = 0
        self.network = network.to(base.device, torch.float32)

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        return self.network.named_parameters()

    def save(self, path: str | Path) -> None:
        check_finite(f"The {self.kind}", self.named_parameters())
        Path(path).mkdir(parents=True, exist_ok=True)
        save_file({name: p.detach() for name, p in self.named_parameters()}, Path(path) / FILE)

    def load(self, path: str | Path) -> None:
        tensors = read_tensors(Path(path) / FILE)
        check_finite(str(Path(path) / FILE), tensors.items())
        try:
            self.network.load_state_dict(tensors)
        except RuntimeError as error:
            reason = " ".join(str(error).split())
            raise PodiumError(f"{Path(path) / FILE} does not fit the {self.kind}: {reason}") from error
        self.bump()

    def signals(
        self,
        batch: Batch,
        signals: Sequence[Signal],
        *,
        temperature: float = 1.0,
        grad: bool = False,
        where: Tensor | None = None,
    ) -> dict[Signal, Tensor]:
        """The network's signals of the batch's tokens. `temperature` and `where` have no effect."""
        for signal in signals:
            self._check_name(signal.name)
        return self._signals(batch, signals, grad)

    @abstractmethod
    def _signals(self, batch: Batch, signals: Sequence[Signal], grad: bool) -> dict[Signal, Tensor]: ...

    def _check_name(self, name: str) -> None:
        if name not in self.names:
            raise PodiumError(f"A {self.kind} does not compute {name!r}. {nearest(name, self.names)}")
