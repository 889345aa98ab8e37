"""The base of small networks that are policies or roles: the signals they compute, and the weights they save."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

from safetensors.torch import save_file
from torch import Tensor, nn

from podium.core.batch import Batch
from podium.core.errors import PodiumError, nearest
from podium.core.signal import Signal
from podium.policy.model.finite import check_finite
from podium.policy.policy import Policy
from podium.store.tables import read_tensors

__all__ = ["SmallNetwork"]


class SmallNetwork(Policy, ABC):
    """A policy that is trained by the weights of `own` alone and computes a few signals of tokens, by name."""

    kind: ClassVar[str]  # for error messages
    names: ClassVar[tuple[str, ...]]  # the signals that it computes
    file: ClassVar[str]  # where its weights are saved
    own: nn.Module

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        return self.own.named_parameters()

    def save(self, path: str | Path) -> None:
        check_finite(f"The {self.kind}", self.named_parameters())
        Path(path).mkdir(parents=True, exist_ok=True)
        save_file({name: p.detach().contiguous() for name, p in self.named_parameters()}, Path(path) / self.file)

    def load(self, path: str | Path) -> None:
        file = Path(path) / self.file
        tensors = read_tensors(file)
        check_finite(str(file), tensors.items())
        try:
            self.own.load_state_dict(tensors)
        except RuntimeError as error:
            raise PodiumError(f"{file} does not fit the {self.kind}: {' '.join(str(error).split())}") from error
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
        """The network's signals of the batch's tokens, differentiable with `grad` where they ask for it. `where` has
        no effect."""
        for signal in signals:
            if not self.computes(signal):
                raise self.refusal(signal.name)
        return self.of_tokens(batch, signals, temperature, grad)

    def computes(self, signal: Signal) -> bool:
        """Whether it knows the signal, with its settings."""
        return signal.name in self.names

    def refusal(self, name: str) -> PodiumError:
        """What is said of a signal that it does not compute."""
        return PodiumError(f"A {self.kind} does not compute {name!r}. {nearest(name, self.names)}")

    @abstractmethod
    def of_tokens(
        self, batch: Batch, signals: Sequence[Signal], temperature: float, grad: bool
    ) -> dict[Signal, Tensor]:
        """[token] the signals."""
