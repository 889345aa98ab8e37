"""Devices: whether the requested one exists and whether a model fits, checked before anything is loaded onto it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from podium.core.errors import PodiumError

__all__ = [
    *(
        "GIB",
        "check_model_fits",
        "check_host",
        "elsewhere",
        "find_device",
        "free_bytes",
        "held_by_others",
        "host_bytes",
    ),
    *("out_of_memory", "to_device", "usual_dtype"),
]

GIB = 1 << 30
CPU = "device='cpu'"


def find_device(device: str, dtype: torch.dtype = torch.float32) -> torch.device:
    """The device of this name; an error if it does not exist or cannot compute in this precision."""
    try:
        place = torch.device(device)
    except RuntimeError as error:
        raise PodiumError(f"There is no device {device!r}: use cpu, cuda or cuda:N.") from error
    if place.type == "cpu":
        return place
    if place.type != "cuda":
        raise PodiumError(f"Podium does not support the device {device!r}: use cpu, cuda or cuda:N.")
    if torch.version.cuda is None and torch.version.hip is None and not torch.cuda.is_available():
        raise PodiumError(
            f"This torch ({torch.__version__}) is built for CPUs alone: install one with CUDA, or use {CPU}."
        )
    if not torch.cuda.is_available():
        raise PodiumError(
            f"There is no CUDA device here, or its driver does not answer, or CUDA_VISIBLE_DEVICES hides it: use {CPU}."
        )
    count = torch.cuda.device_count()
    if place.index is not None and place.index >= count:
        last = "only cuda:0" if count == 1 else f"cuda:0 to cuda:{count - 1}"
        raise PodiumError(f"There is no device {device!r}: this machine has {last}.")
    _check_age(place, dtype)
    try:
        torch.cuda.mem_get_info(place)
    except RuntimeError as error:  # no memory is left for a context, or another program has exclusive use
        name, reason = torch.cuda.get_device_name(place), str(error).splitlines()[0].rstrip(".")
        raise PodiumError(
            f"{name} takes no more work ({reason}): wait until the programs that use it have ended, or use {CPU}."
        ) from error
    return place


def usual_dtype(device: str) -> str:
    """The default precision: bfloat16 on a GPU that supports it, float32 elsewhere."""
    place = find_device(device)
    return "bfloat16" if place.type == "cuda" and torch.cuda.get_device_capability(place)[0] >= 8 else "float32"


def _check_age(place: torch.device, dtype: torch.dtype) -> None:
    """Refuse a GPU that is too old for this torch, or for a precision."""
    name, capability = torch.cuda.get_device_name(place), torch.cuda.get_device_capability(place)
    built = [int(a[3:]) for a in torch.cuda.get_arch_list() if a.startswith("sm_") and a[3:].isdigit()]
    if built and 10 * capability[0] + capability[1] < min(built):
        raise PodiumError(
            f"{name} is too old for this torch ({torch.__version__}): install a torch that is built for compute "
            f"capability {capability[0]}.{capability[1]}, or use {CPU}."
        )
    if dtype == torch.bfloat16 and capability[0] < 8:
        raise PodiumError(f"{name} does not compute in bfloat16: use dtype='float32', or a GPU of 2020 or later.")


def to_device(array: NDArray[Any], place: torch.device | str) -> Tensor:
    """An array as a tensor on a device, without waiting for the work that a GPU is doing."""
    tensor = torch.from_numpy(array)
    if torch.device(place).type != "cuda":
        return tensor.to(place)
    return tensor.pin_memory().to(place, non_blocking=True)


def free_bytes(place: torch.device) -> tuple[int, int]:
    """Free and total bytes of a GPU; memory that torch has reserved but does not use counts as free."""
    free, total = torch.cuda.mem_get_info(place)
    return free + torch.cuda.memory_reserved(place) - torch.cuda.memory_allocated(place), total


def out_of_memory(error: BaseException | None) -> bool:
    """Whether an error says that a GPU is out of memory, from torch's allocator, a library's, or the driver."""
    if isinstance(error, torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(word in str(error) for word in ("out of memory", "ALLOC_FAILED"))


def host_bytes() -> int | None:
    """Available bytes of the machine's memory, including swap; None where the system does not say."""
    try:
        lines = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
        return 1024 * sum(int(lines[name].split()[0]) for name in ("MemAvailable", "SwapFree"))
    except (OSError, KeyError, ValueError):
        return None


def check_host(name: str, weights: int, dtype: torch.dtype) -> None:
    """Refuse a model that does not fit in the machine's memory, before the system kills the process for it."""
    left, size = host_bytes(), weights * dtype.itemsize
    if left is None or size <= left:
        return
    half = dtype == torch.float32 and size // 2 <= left
    advice = "dtype='bfloat16', with lora=16 to train it" if half else "a smaller model"
    raise PodiumError(
        f"{name} does not fit in this machine's memory: its weights take {size / GIB:.1f} GiB, and {left / GIB:.1f} "
        f"GiB are left. Use {advice}."
    )


def held_by_others(place: torch.device) -> int:
    """Bytes of a GPU held by other programs and by the driver."""
    free, total = torch.cuda.mem_get_info(place)
    return max(total - free - torch.cuda.memory_reserved(place), 0)


def elsewhere(place: torch.device, needed: int) -> str | None:
    """Advice to use another GPU of this machine with so many free bytes; None: there is none."""
    current = torch.cuda.current_device() if place.index is None else place.index
    free = {n: torch.cuda.mem_get_info(n)[0] for n in range(torch.cuda.device_count()) if n != current}
    most = max(free, key=lambda n: free[n], default=None)
    if most is None or free[most] < needed:
        return None
    return f"use device='cuda:{most}', where {free[most] / GIB:.1f} GiB are free"


def check_model_fits(name: str, weights: int, dtype: torch.dtype, place: torch.device, adapters: bool = False) -> None:
    """Refuse a model whose weights alone do not fit on the GPU, and suggest what does."""
    if place.type != "cuda":
        return
    free, total = free_bytes(place)
    others = held_by_others(place)
    size = weights * dtype.itemsize
    if size <= free:
        return
    shared = f" (other programs hold {others / GIB:.1f} of its {total / GIB:.1f})" if others > total // 8 else ""
    if other := elsewhere(place, size):
        advice = other
    elif dtype == torch.float32 and size // 2 <= free:
        # Full training keeps the weights in float32, whatever precision computes.
        advice = "use dtype='bfloat16'" + ("" if adapters else ", and lora=16 to train it")
    elif size <= free + others:
        advice = "wait until the other programs have ended"
    else:
        most = free / dtype.itemsize / 1e9
        advice = f"use a model of at most {most:.2g} billion weights, or {CPU}"
    raise PodiumError(
        f"{name} does not fit on {place}: its weights take {size / GIB:.1f} GiB, and {free / GIB:.1f} GiB are free"
        f"{shared}. {advice[0].upper()}{advice[1:]}."
    )
