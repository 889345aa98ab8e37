"""Kernels in C for a CPU: decode steps (`step.py`) and packed training passes (`ops.py`).

Without a compiler Podium installs and works, more slowly.
"""

from __future__ import annotations

import ctypes
import os
import warnings
from functools import cache
from pathlib import Path

from torch import Tensor

__all__ = [
    "Attend",
    "Choose",
    "Draw",
    "Exclude",
    "Gate",
    "GateBack",
    "Norm",
    "NormBack",
    "Span",
    "library",
    "place",
]


LANES, TEAM, WORK, LARGEST = 16, 4, 7, 256  # as in kernels.c


def _structure(name: str, pointers: str, integers: str, floats: str = "") -> type[ctypes.Structure]:
    fields = [(f, ctypes.c_void_p) for f in pointers.split()] + [(f, ctypes.c_int64) for f in integers.split()]
    return type(name, (ctypes.Structure,), {"_fields_": fields + [(f, ctypes.c_float) for f in floats.split()]})


# The arguments of kernels.c, field by field.
Norm = _structure("Norm", "x weight y scale", "rows width threads", "eps")
NormBack = _structure("NormBack", "x weight scale g gx gw", "rows width")
Gate = _structure("Gate", "x y", "rows width threads")
GateBack = _structure("GateBack", "x g gx", "rows width threads")
Attend = _structure(
    "Attend",
    "qkv keys values shared_keys shared_values rope position line slot shared out score",
    "rows heads kv size room shared_room",
    "scale",
)
Draw = _structure(
    "Draw",
    "logits uniform temperature top_k top_p min_p token logp entropy work mass order kept ends",
    "rows vocabulary",
)
Exclude = _structure("Exclude", "logits next state", "rows vocabulary", "excluded")
Span = _structure(
    "Span",
    "qkv rope position path begin first offset out turned weight heads_out slope work",
    "nodes spans heads kv size total longest threads",
    "scale",
)
Choose = _structure("Choose", "logits id logp total slope", "rows vocabulary threads")
KERNELS = {
    "norm": Norm,
    "norm_back": NormBack,
    "gate": Gate,
    "gate_back": GateBack,
    "attend": Attend,
    "draw": Draw,
    "exclude": Exclude,
    "span": Span,
    "span_back": Span,
    "choose": Choose,
    "choose_back": Choose,
}


@cache
def library() -> ctypes.CDLL | None:
    """The compiled kernels; None where they were not built, or PODIUM_NATIVE=0 turns them off."""
    if os.environ.get("PODIUM_NATIVE") == "0":
        return None
    for path in sorted(Path(__file__).parent.glob("_kernels*.so")):
        try:
            loaded = ctypes.CDLL(str(path))
        except OSError:  # built for another system
            continue
        if not _fits(loaded):
            warnings.warn(
                f"{path.name} was built from other sources: sampling and training on a CPU go on without it, more "
                "slowly. Build it again: make, or pip install -e .",
                stacklevel=2,
            )
            continue
        for name, kind in KERNELS.items():
            function = loaded[f"podium_{name}"]
            function.argtypes, function.restype = [ctypes.POINTER(kind)], None
        return loaded
    return None


def _fits(loaded: ctypes.CDLL) -> bool:
    """Whether its argument structures have the sizes declared in this module."""
    try:
        sizes = {name: ctypes.c_int64.in_dll(loaded, f"podium_{name}_bytes").value for name in KERNELS}
    except ValueError:  # it lacks a function
        return False
    return all(sizes[name] == ctypes.sizeof(kind) for name, kind in KERNELS.items())


def place(x: Tensor) -> int:
    """The address of a contiguous tensor's data."""
    assert x.is_contiguous()
    return x.data_ptr()
