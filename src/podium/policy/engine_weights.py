"""What an engine outside does when it is given new weights; vLLM's workers import this module.

`RenewsWeights` adds the call `podium_renew` to vLLM's workers (`worker_extension_cls`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

__all__ = ["STACKED", "RenewsWeights", "bit_sums", "stale_weights"]

# Matrices that engines keep as one, and what it is called then.
STACKED = {
    "q_proj": "qkv_proj",
    "k_proj": "qkv_proj",
    "v_proj": "qkv_proj",
    "gate_proj": "gate_up_proj",
    "up_proj": "gate_up_proj",
}
BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def bit_sums(tensor: Tensor) -> list[int]:
    """How many numbers a tensor has, and two sums over their bits (modulo 2^63). Those of matrices that stand in one
    are the sums of theirs, in any order."""
    bits = tensor.detach().contiguous().reshape(-1).view(BITS[tensor.element_size()])
    total = squares = 0
    for part in torch.split(bits, 1 << 24):
        wide = part.long()
        total += int(wide.sum())
        squares += int(((wide % 65_521) ** 2).sum())
    return [tensor.numel(), total % (1 << 63), squares % (1 << 63)]


class RenewsWeights:
    """Additional calls of a vLLM worker."""

    model_runner: Any

    def podium_renew(self, source: str | Iterable[tuple[str, Tensor]]) -> dict[str, list[Any]]:
        """Take over weights: those of a directory, or tensors by name. Returns the fingerprint of each parameter, and
        the precision that it was computed in."""
        weights = _of_directory(source) if isinstance(source, str) else iter(source)
        self.model_runner.reload_weights(weights_iterator=weights)
        model = self.model_runner.get_model()
        for module in model.modules():
            # A head that shares the embedding's weights may have a packed copy of them, which loading does not renew.
            method = getattr(module, "quant_method", None)
            if hasattr(module, "cpu_linear") and hasattr(module, "num_embeddings") and method is not None:
                method.process_weights_after_loading(module)
        return {name: [str(p.dtype), *bit_sums(p)] for name, p in model.named_parameters()}


def _of_directory(path: str) -> Iterator[tuple[str, Tensor]]:
    from safetensors import safe_open

    for file in sorted(Path(path).glob("model*.safetensors")):
        with safe_open(file, framework="pt") as opened:
            for name in opened.keys():  # noqa: SIM118 (it is no mapping)
                yield name, opened.get_tensor(name)


def stale_weights(mine: Iterable[tuple[str, Tensor]], theirs: Mapping[str, list[Any]]) -> list[str]:
    """The names of an engine's parameters that are not these weights; those it keeps in another layout are passed
    over."""
    expected: dict[str, list[int]] = {}
    for name, tensor in mine:
        for part, whole in STACKED.items():
            name = name.replace(f".{part}.", f".{whole}.")
        if name not in theirs:
            continue
        precision = getattr(torch, str(theirs[name][0]).removeprefix("torch."))
        print_ = bit_sums(tensor.to(precision))
        before = expected.get(name, [0, 0, 0])
        expected[name] = [
            before[0] + print_[0],
            *((a + b) % (1 << 63) for a, b in zip(before[1:], print_[1:], strict=True)),
        ]
    return [name for name, numbers in expected.items() if theirs[name][1] == numbers[0] and theirs[name][1:] != numbers]
