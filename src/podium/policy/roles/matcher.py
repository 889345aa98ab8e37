"""A matcher: a small network that embeds pictures made of tokens and short texts into one space, as CLIP does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from podium.core.batch import Batch
from podium.core.errors import PodiumError
from podium.policy.network_policy import NetworkPolicy
from podium.policy.policy import Ids
from podium.protocols.pieces import ModelTokens, pieces_of

__all__ = ["Matcher", "TwoTowers"]

RESERVED = "<|reserved_"  # how the tokens of pictures begin
CHARACTERS = 128  # ids below are characters of a text, ids from here on are patches of a picture


class TwoTowers(nn.Module):
    """A tower for pictures, whose patches are looked up in a codebook of numbers, and one for texts."""

    def __init__(self, patches: int, codes: int, pixels: int, letters: int, width: int, size: int) -> None:
        super().__init__()
        self.patches, self.letters = patches, letters
        self.codebook = nn.Parameter(torch.zeros(codes, pixels), requires_grad=False)
        self.picture = nn.Sequential(
            nn.Linear(patches * pixels, width), nn.GELU(), nn.Linear(width, width), nn.GELU(), nn.Linear(width, size)
        )
        self.characters = nn.Embedding(CHARACTERS, size)
        self.text = nn.Sequential(nn.Linear(letters * size, width), nn.GELU(), nn.Linear(width, size))

    def of_pictures(self, codes: Tensor) -> Tensor:
        """[row, size] from codes [row, patch]."""
        embedded: Tensor = self.picture(self.codebook[codes].flatten(1))
        return embedded

    def of_texts(self, characters: Tensor) -> Tensor:
        """[row, size] from characters [row, letter]; 0 where the text has ended."""
        embedded: Tensor = self.text(self.characters(characters).flatten(1))
        return embedded


class Matcher(NetworkPolicy):
    """Embeds a prompt with one picture, or a short text: a role that says how well they fit. It writes nothing."""

    kind = "matcher"
    names = ()

    @staticmethod
    def build(settings: Mapping[str, int]) -> nn.Module:
        return TwoTowers(**settings)

    def encode(self, messages: Sequence[Mapping[str, Any]]) -> Ids:
        """The patches of a prompt's picture; of a prompt without one its characters."""
        content = messages[-1]["content"]
        named = [t for piece in pieces_of(content) if isinstance(piece, ModelTokens) for t in piece.tokens]
        codes = [int(str(t)[len(RESERVED) : -2]) for t in named if str(t).startswith(RESERVED)]
        if codes:
            patches, known = self.settings["patches"], self.settings["codes"]
            if len(codes) != patches or max(codes) >= known:
                raise PodiumError(
                    f"{self.name or 'The matcher'} reads one picture of {patches} patches with codes below {known}: "
                    f"this prompt has {len(codes)}, the highest {max(codes)}."
                )
            return tuple(CHARACTERS + code for code in codes)
        letters = str(content).encode("ascii", "replace")[: self.settings["letters"]]
        return tuple(letters) or (ord(" "),)

    def text(self, ids: Sequence[int]) -> str:
        return "".join(chr(i) for i in ids if i < CHARACTERS)

    def states(
        self, sequences: Sequence[Sequence[int]], *, grad: bool = False, layers: Sequence[int] | None = None
    ) -> list[Tensor]:
        """One state [1, size] for each picture or text."""
        with torch.set_grad_enabled(grad):
            return [self._state(torch.tensor([list(ids)], device=self.device)) for ids in sequences]

    def _state(self, ids: Tensor) -> Tensor:
        towers: Any = self.model
        if int(ids[0, 0]) >= CHARACTERS:
            return towers.of_pictures(ids - CHARACTERS)
        padded = nn.functional.pad(ids, (0, self.settings["letters"] - ids.shape[1]))
        return towers.of_texts(padded)

    def values(self, batch: Batch, temperature: float) -> dict[str, Tensor]:
        raise PodiumError("A matcher writes nothing, so it cannot be the policy: name it as the source of a role.")
