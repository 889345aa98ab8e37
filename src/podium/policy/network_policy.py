"""The base of policies that are small networks and write no text: choosers and flows.

A run treats them as it treats language models: it copies, averages, trains, saves and loads them, and asks them for
signals of a batch. What they read and write passes as integers through the same samplers' protocol.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from podium.core.batch import Batch
from podium.core.errors import PodiumError, nearest
from podium.core.signal import Signal
from podium.policy.model.finite import check_finite
from podium.policy.policy import Ids, Policy
from podium.store.json_lines import read_object
from podium.store.tables import read_tensors

__all__ = ["NetworkPolicy"]

MODEL, CONFIG = "model.safetensors", "config.json"


class NetworkPolicy(Policy, ABC):
    """A network with settings. It computes in float32 whatever the precision of the run."""

    kind: ClassVar[str]  # `model_type` in its config.json, and its name in error messages
    names: ClassVar[tuple[str, ...]]  # the signals that it computes

    def __init__(self, settings: Mapping[str, int], *, name: str = "", seed: int = 0) -> None:
        self.settings = dict(settings)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.model = self.build(self.settings).eval()
        self.tokenizer, self.name, self.version = None, name, 0
        self.checkpointing, self.lower, self.decoder = False, None, None
        self.context_length, self.vocabulary = 1 << 20, 1 << 20
        self.notes = ()

    @staticmethod
    @abstractmethod
    def build(settings: Mapping[str, int]) -> nn.Module:
        """The network of these settings."""

    @classmethod
    def from_directory(cls, path: Path, name: str) -> Self:
        """The policy of a directory that `save` wrote."""
        claims = {k: v for k, v in read_object(path / CONFIG).items() if k != "model_type"}
        if bad := [k for k, v in claims.items() if type(v) is not int or not 0 < v <= 4096]:
            raise PodiumError(f"{path / CONFIG}: {bad[0]} = {claims[bad[0]]!r} is no whole number from 1 to 4096.")
        try:
            policy = cls(claims, name=name)
        except TypeError as error:
            raise PodiumError(f"{path / CONFIG} is not that of a {cls.kind}: {error}.") from error
        policy.load(path)
        return policy

    def copy(self) -> Self:
        twin = type(self)(self.settings, name=self.name)
        twin.model.load_state_dict(self.model.state_dict())
        twin.model.to(self.device)
        return twin

    def widen(self, lower: torch.dtype | None = None) -> None:
        """Nothing: its weights are in float32 already."""

    def narrow(self, dtype: torch.dtype) -> None:
        """Nothing: it computes in float32."""

    def save(self, path: str | Path) -> None:
        check_finite(self.name or f"The {self.kind}", self.named_parameters())
        Path(path).mkdir(parents=True, exist_ok=True)
        save_file({k: p.detach().contiguous() for k, p in self.named_parameters()}, Path(path) / MODEL)
        (Path(path) / CONFIG).write_text(json.dumps({"model_type": self.kind, **self.settings}, indent=1) + "\n")

    def load(self, path: str | Path) -> None:
        file = Path(path) / MODEL
        tensors = read_tensors(file)
        check_finite(str(file), tensors.items())
        try:
            self.model.load_state_dict(tensors)
        except RuntimeError as error:
            raise PodiumError(f"{file} does not fit the {self.kind}: {' '.join(str(error).split())}") from error
        self.bump()

    # -- what language models do with text ---------------------------------------------------------------------------

    @property
    def end_ids(self) -> tuple[int, ...]:
        return ()

    def control_token_in(self, text: str) -> str:
        return ""

    def follow_up(self, observation: str, ended: bool = True) -> Ids:
        raise PodiumError(
            f"A {self.kind} sees the last observation alone: the strategy's context must be Latest(), as its worlds "
            "have it."
        )

    def ends(self, ids: Sequence[int]) -> list[int]:
        raise PodiumError(f"A {self.kind} writes no text that could be cut.")

    def score(self, *args: Any, **settings: Any) -> list[Tensor]:
        raise PodiumError(f"A {self.kind} cannot score texts: take a strategy that only samples, such as Sample.")

    def signals(
        self,
        batch: Batch,
        signals: Sequence[Signal],
        *,
        temperature: float = 1.0,
        grad: bool = False,
        where: Tensor | None = None,
    ) -> dict[Signal, Tensor]:
        """The network's signals of the batch's tokens, differentiable with `grad` where they ask for it."""
        for signal in signals:
            if signal.name not in self.names or signal.level != "token" or signal.settings:
                raise PodiumError(f"A {self.kind} does not compute {signal!r}. {nearest(signal.name, self.names)}")
        with torch.set_grad_enabled(grad and torch.is_grad_enabled()):
            values = self.of_tokens(batch, temperature)
        values = {name: x.to(batch.device, batch.dtype) for name, x in values.items()}
        return {s: values[s.name] if s.grad else values[s.name].detach() for s in signals}

    @abstractmethod
    def of_tokens(self, batch: Batch, temperature: float) -> dict[str, Tensor]:
        """[token] every signal by name."""
