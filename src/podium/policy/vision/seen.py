"""What a model's own image processor makes of pictures, and what stands for them in a prompt.

Two kinds of models are known: Qwen2-VL's, whose pictures keep their shape, and Idefics3's (SmolVLM), which cuts a large
picture into tiles of one size. Processors are those of Pillow and NumPy, so that torchvision is not needed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from podium.core.errors import PodiumError

__all__ = ["FAMILIES", "Idefics", "PictureKind", "Qwen", "Seen", "processor_class"]


@dataclass(frozen=True)
class Seen:
    """A picture as the model takes it: its tensors, and the ids in a prompt, with the model's placeholder for each of
    its features."""

    tensors: Mapping[str, Tensor]
    ids: tuple[int, ...]


class PictureKind(ABC):
    """How a family of models takes pictures."""

    def __init__(self, model: Any, tokenizer: Any, processor: Any) -> None:
        self.model, self.config, self.tokenizer, self.processor = model, model.config, tokenizer, processor
        self.placeholder: int = self.config.image_token_id

    @abstractmethod
    def see(self, picture: Any) -> Seen:
        """What the processor makes of a picture in three colours."""

    @abstractmethod
    def batched(self, rows: Sequence[Sequence[Seen]]) -> dict[str, Tensor]:
        """The tensors of the pictures of padded texts, row by row; not called without any."""

    def positions(self, ids: Tensor, mask: Tensor, tensors: Mapping[str, Tensor]) -> Tensor | None:
        """Positions for the rotary embedding, where pictures change them; None: those of a text."""
        return None

    def _token(self, name: str) -> int:
        number = self.tokenizer.get_vocab().get(name)
        if number is None:
            raise PodiumError(f"The tokenizer has no token {name!r}, which must stand around a picture.")
        return int(number)


class Qwen(PictureKind):
    """Qwen2-VL and Qwen2.5-VL: patches of the whole picture, merged two by two, with positions in three dimensions."""

    def see(self, picture: Any) -> Seen:
        found = self.processor(images=[picture], return_tensors="pt")
        grid = found["image_grid_thw"]
        count = int(grid.prod()) // self.processor.merge_size**2
        start, end = self.config.vision_start_token_id, self.config.vision_end_token_id
        ids = (start, *[self.placeholder] * count, end)
        return Seen({"pixel_values": found["pixel_values"], "image_grid_thw": grid}, ids)

    def batched(self, rows: Sequence[Sequence[Seen]]) -> dict[str, Tensor]:
        pictures = [seen for row in rows for seen in row]
        return {name: torch.cat([seen.tensors[name] for seen in pictures]) for name in pictures[0].tensors}

    def positions(self, ids: Tensor, mask: Tensor, tensors: Mapping[str, Tensor]) -> Tensor | None:
        body: Any = self.model.model
        kinds = (ids == self.placeholder).to(torch.int32)
        settings: dict[str, Any] = {"image_grid_thw": tensors["image_grid_thw"], "attention_mask": mask}
        if "mm_token_type_ids" in body.get_rope_index.__code__.co_varnames:
            settings["mm_token_type_ids"] = kinds
        positions, _ = body.get_rope_index(ids, **settings)
        return positions


class Idefics(PictureKind):
    """Idefics3 and SmolVLM: the whole picture in a small size, and where it is large its tiles before it."""

    def see(self, picture: Any) -> Seen:
        found = self.processor(images=[[picture]], return_tensors="pt", return_row_col_info=True)
        rows, columns = int(found["rows"][0][0]), int(found["cols"][0][0])
        tensors = {name: found[name][0] for name in ("pixel_values", "pixel_attention_mask") if name in found}
        return Seen(tensors, tuple(self._ids(rows, columns)))

    def _ids(self, rows: int, columns: int) -> list[int]:
        vision, around = self.config.vision_config, self._token("<fake_token_around_image>")
        side = vision.image_size // vision.patch_size // self.config.scale_factor
        features = [self.placeholder] * side**2
        ids: list[int] = []
        for row in range(1, rows + 1):
            for column in range(1, columns + 1):
                ids += [around, self._token(f"<row_{row}_col_{column}>"), *features]
            ids += self._text("\n" if row < rows else "\n\n")
        return [*ids, around, self._token("<global-img>"), *features, around]

    def _text(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return ids

    def batched(self, rows: Sequence[Sequence[Seen]]) -> dict[str, Tensor]:
        stacked = [[seen.tensors for seen in row] for row in rows]
        most = max(sum(len(t["pixel_values"]) for t in row) for row in stacked)
        names = next(iter(t for row in stacked for t in row)).keys()
        found = {}
        for name in names:
            shape = next(t[name].shape[1:] for row in stacked for t in row)
            tiles = [torch.cat([t[name] for t in row]) if row else torch.zeros(0, *shape) for row in stacked]
            # Blank tiles, which the model leaves out.
            found[name] = torch.stack([torch.cat([x, x.new_zeros(most - len(x), *shape)]) for x in tiles])
        return found


FAMILIES: dict[str, type[PictureKind]] = {
    **dict.fromkeys(("qwen2_vl", "qwen2_5_vl"), Qwen),
    **dict.fromkeys(("idefics3", "smolvlm"), Idefics),
}
# Their image processors by Pillow and NumPy. By name, because the automatic classes insist on torchvision in some
# versions of transformers.
PROCESSORS = {
    **dict.fromkeys(("qwen2_vl", "qwen2_5_vl"), ("qwen2_vl", "Qwen2VLImageProcessorPil")),
    "idefics3": ("idefics3", "Idefics3ImageProcessorPil"),
    "smolvlm": ("smolvlm", "SmolVLMImageProcessorPil"),
}


def processor_class(family: str) -> Any:
    """The image processor of a family of models."""
    folder, name = PROCESSORS[family]
    try:
        return getattr(import_module(f"transformers.models.{folder}.image_processing_pil_{folder}"), name)
    except (ImportError, AttributeError) as error:
        raise PodiumError(
            f"Pictures of {family} models need transformers 5.17 or newer and Pillow: pip install 'podium-rl[vision]'."
        ) from error
