"""A policy that sees pictures: a vision-language model with its tokenizer and its image processor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn

from podium.core.errors import PodiumError
from podium.policy.policy import Ids, Policy
from podium.policy.vision.picture_ids import FIRST, ids_of, in_order, picture_number, with_placeholder
from podium.policy.vision.seen import FAMILIES, Seen
from podium.protocols.pieces import Dialogue, ModelTokens, Picture, Piece, Pieces, pieces_of
from podium.store.pictures import open_picture

__all__ = ["VisionPolicy"]

KEPT = 256  # pictures whose tensors are kept
# The bytes of pictures by number, for all policies: a reference model is given contexts that the policy has encoded.
SHOWN: dict[int, tuple[str, bytes]] = {}


class VisionPolicy(Policy):
    """A vision-language model. In contexts, ids beyond the vocabulary are the places of pictures: `picture_ids`.

    It goes through the model's own forward pass, to which the pictures are given with the text.
    """

    def __init__(
        self, model: nn.Module, tokenizer: Any, processor: Any, *, name: str = "", notes: Sequence[str] = ()
    ) -> None:
        super().__init__(model, tokenizer, name=name, notes=notes)
        whole: Any = model
        self.processor = processor
        self.kind = FAMILIES[whole.config.model_type](model, tokenizer, processor)
        self._seen = lru_cache(KEPT)(self._see)

    def _like(self, model: nn.Module) -> Self:
        return type(self)(model, self.tokenizer, self.processor, name=self.name)

    def save(self, path: str | Path) -> None:
        super().save(path)
        self.processor.save_pretrained(path)

    # -- text ------------------------------------------------------------------------------------------------------

    def encode(self, messages: Sequence[Mapping[str, Any]]) -> Ids:
        return super().encode([{**message, "content": self._with_ids(message["content"])} for message in messages])

    def follow_up(self, observation: str, ended: bool = True) -> Ids:
        return super().follow_up(self._with_ids(observation), ended)

    def text(self, ids: Sequence[int]) -> str:
        return super().text(with_placeholder(ids, self.kind.placeholder))

    def read(self, ids: Sequence[int], known: str | None = None) -> tuple[str, list[int]]:
        return super().read(with_placeholder(ids, self.kind.placeholder), known)

    def _with_ids(self, content: str) -> str:
        """The text with ids in place of its pictures."""
        if isinstance(content, Dialogue):
            return Dialogue(*((role, self._with_ids(text)) for role, text in content.messages))
        pieces = pieces_of(content)
        if not any(isinstance(piece, Picture) for piece in pieces):
            return content
        return Pieces(*(self._ids_for(piece) if isinstance(piece, Picture) else piece for piece in pieces))

    def _ids_for(self, picture: Picture) -> Piece:
        data = picture.read()
        number = picture_number(data)
        SHOWN.setdefault(number, (str(picture), data))
        seen, placeholder = self._seen(number), self.kind.placeholder
        own = iter(ids_of(number, seen.ids.count(placeholder)))
        return ModelTokens(*(next(own) if i == placeholder else i for i in seen.ids))

    # -- pictures --------------------------------------------------------------------------------------------------

    def _see(self, number: int) -> Seen:
        """What the processor makes of a picture."""
        if number not in SHOWN:
            raise PodiumError(
                "A stored rollout has seen a picture that this run has not: rollouts with pictures cannot be replayed "
                "by another process."
            )
        name, data = SHOWN[number]
        picture = open_picture(data, name)
        try:
            return self.kind.see(picture)
        except PodiumError:
            raise
        except Exception as error:  # processors refuse sizes in their own ways
            size = " x ".join(map(str, picture.size))
            reason = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
            raise PodiumError(f"{name} has {size} pixels, which {self.name} cannot see: {reason}.") from error

    def inputs(self, ids: Tensor, mask: Tensor, position: Tensor | None = None) -> dict[str, Tensor]:
        """What the model's own forward pass takes: the text with the model's placeholders, and the pictures."""
        found = in_order_of_rows(ids)
        # A placeholder that the model has written itself stands for no picture: it is read as the end of a turn.
        written = ids == self.kind.placeholder
        texts = torch.where(ids >= FIRST, self.kind.placeholder, ids.masked_fill(written, self.end_ids[0]))
        given = super().inputs(texts, mask, position)
        if not any(found):
            return given
        tensors = self.kind.batched([[self._seen(number) for number in row] for row in found])
        tensors = {k: x.to(ids.device, self.dtype if x.is_floating_point() else x.dtype) for k, x in tensors.items()}
        places = self.kind.positions(texts, mask, tensors)
        return given | tensors | ({} if places is None else {"position_ids": places})

    @property
    def pictures(self) -> Mapping[str, bytes]:
        return dict(SHOWN.values())

    def shifts(self, ids: Tensor, mask: Tensor) -> Tensor:
        """[row] how much further on than its number the position of the token after each text lies."""
        places = self.inputs(ids, mask).get("position_ids")
        if places is None:
            return super().shifts(ids, mask)
        last = places.amax(0).masked_fill(mask == 0, 0).amax(1)
        return last + 1 - mask.sum(1)


def in_order_of_rows(ids: Tensor) -> list[list[int]]:
    """The numbers of the pictures of each row."""
    if not bool((ids >= FIRST).any()):
        return [[] for _ in range(len(ids))]
    return [in_order(row) for row in ids.tolist()]
