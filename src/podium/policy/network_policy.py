"""The base of policies that are small networks and write no text: choosers and flows.

A run treats them as it treats language models: it copies, averages, trains, saves and loads them, and asks them for
signals of a batch. What they read and write passes as integers through the same samplers' protocol.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn

from podium.core.batch import Batch
from podium.core.errors import PodiumError
from podium.core.signal import Signal
from podium.policy.policy import Ids
from podium.policy.small_network import SmallNetwork
from podium.store.json_lines import read_object

__all__ = ["NetworkPolicy"]

CONFIG = "config.json"


class NetworkPolicy(SmallNetwork):
    """A network with settings. It computes in float32 whatever the precision of the run. `kind` is the `model_type` in
    its config.json."""

    file = "model.safetensors"

    def __init__(self, settings: Mapping[str, int], *, name: str = "", seed: int = 0) -> None:
        self.settings = dict(settings)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.model = self.own = self.build(self.settings).eval()
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
        super().save(path)
        (Path(path) / CONFIG).write_text(json.dumps({"model_type": self.kind, **self.settings}, indent=1) + "\n")

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

    def computes(self, signal: Signal) -> bool:
        return super().computes(signal) and signal.level == "token" and not signal.settings

    def of_tokens(
        self, batch: Batch, signals: Sequence[Signal], temperature: float, grad: bool
    ) -> dict[Signal, Tensor]:
        with torch.set_grad_enabled(grad and torch.is_grad_enabled()):
            values = self.values(batch, temperature)
        values = {name: x.to(batch.device, batch.dtype) for name, x in values.items()}
        return {s: values[s.name] if s.grad else values[s.name].detach() for s in signals}

    @abstractmethod
    def values(self, batch: Batch, temperature: float) -> dict[str, Tensor]:
        """[token] every signal by name."""
