"""Devices: what is asked for, whether it is there, and whether a model fits, said before anything is loaded onto it."""

from __future__ import annotations

from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from podium.core.errors import PodiumError

__all__ = ["GIB", "check_fit", "find", "free_bytes", "put"]

GIB = 1 << 30


def find(device: str, dtype: torch.dtype = torch.float32) -> torch.device:
    """The device of this name, if it is there and can compute in this precision."""
    try:
        place = torch.device(device)
    except RuntimeError as error:
        raise PodiumError(f"There is no device {device!r}: use cpu, cuda or cuda:N.") from error
    if place.type != "cuda":
        return place
    if not torch.cuda.is_available():
        raise PodiumError("There is no CUDA device here, or this build of torch does not support it: use device='cpu'.")
    count = torch.cuda.device_count()
    if place.index is not None and place.index >= count:
        last = "only cuda:0" if count == 1 else f"cuda:0 to cuda:{count - 1}"
        raise PodiumError(f"There is no device {device!r}: this machine has {last}.")
    if dtype == torch.bfloat16 and torch.cuda.get_device_capability(place)[0] < 8:
        name = torch.cuda.get_device_name(place)
        raise PodiumError(f"{name} does not compute in bfloat16: use dtype='float32', or a GPU of 2020 or later.")
    return place


def put(array: NDArray[Any], place: torch.device | str) -> Tensor:
    """An array as a tensor on a device; the host does not wait for what a GPU is doing."""
    made = torch.from_numpy(array)
    if torch.device(place).type != "cuda":
        return made.to(place)
    return made.pin_memory().to(place, non_blocking=True)


def free_bytes(place: torch.device) -> tuple[int, int]:
    """Free and total bytes of a GPU; what torch holds for later is free."""
    free, total = torch.cuda.mem_get_info(place)
    return free + torch.cuda.memory_reserved(place) - torch.cuda.memory_allocated(place), total


def check_fit(name: str, weights: int, dtype: torch.dtype, place: torch.device) -> None:
    """Refuse a model whose weights alone do not fit on the GPU."""
    if place.type != "cuda":
        return
    free, total = free_bytes(place)
    size = weights * torch.empty(0, dtype=dtype).element_size()
    if size <= free:
        return
    if total - free > total // 4:
        advice = f"others hold {(total - free) / GIB:.1f} of its {total / GIB:.1f} GiB: wait for them"
    elif dtype == torch.float32 and size // 2 <= free:
        advice = "use dtype='bfloat16'"
    else:
        advice = "use a smaller model, or device='cpu'"
    raise PodiumError(
        f"{name} does not fit on {place}: its weights take {size / GIB:.1f} GiB, and {free / GIB:.1f} GiB are free. "
        f"{advice[0].upper()}{advice[1:]}."
    )
