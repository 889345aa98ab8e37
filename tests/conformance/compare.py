"""What counts as equal: the one place where tolerances are decided."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from tests.conformance.case import Case, VectorFile

__all__ = ["FLOAT32", "FLOAT64", "Deviation", "deviation", "tolerance"]

# The rule, for every slug alike. Let e be an expected number, s the largest |e| of its key in the case, and tol the
# key's relative tolerance (`tolerance`). A result r agrees if |r − e| ≤ tol · (|e| + FLOOR · max(s, 1)).
# The second summand is what rounding at the size of the key's largest number leaves in its smallest ones.
FLOAT32, FLOAT64 = 1e-4, 1e-6
FLOOR = 1e-2


def tolerance(file: VectorFile, key: str) -> float:
    """The relative tolerance of an expected key: 1e-4 where the reference ran in float32, else 1e-6.

    The digits tell. A number written with more digits than a float32 holds, and yet equal to some float32 rounded to
    as many, comes from float32: a key ran in float32 if all its telling numbers are such. A key without telling
    numbers goes by the file's other keys, a file without any by its source: reference code runs in float32, an
    implementation of our own in float64.
    """
    cases = [case for case in file.cases if isinstance(case, Case)]
    for keys in ([key], {k for case in cases for k in case.expected}):
        numbers = [x for case in cases for k in keys for _, x in _leaves(case.expected.get(k, ()))]
        telling = [x for x in numbers if _tells(x)]
        if telling:
            return FLOAT32 if all(_is_float32(x) for x in telling) else FLOAT64
    return FLOAT32 if file.source.startswith("reference") else FLOAT64


def _digits(x: float) -> int:
    """How many significant digits a number is written with."""
    return len(repr(abs(x)).partition("e")[0].replace(".", "").strip("0"))


def _tells(x: Any) -> bool:
    """Whether the last digit of a number is well below the spacing of float32 around it."""
    if not isinstance(x, float) or not math.isfinite(x) or x == 0:
        return False
    last = 10.0 ** (math.floor(math.log10(abs(x))) - _digits(x) + 1)
    spacing = 2.0 ** (math.frexp(x)[1] - 24)
    return last < spacing / 4


def _is_float32(x: float) -> bool:
    try:
        (nearest,) = struct.unpack("f", struct.pack("f", x))
    except OverflowError:
        return False
    return float(f"{nearest:.{_digits(x)}g}") == x


@dataclass(frozen=True)
class Deviation:
    """Where a result leaves its expected value the most, in words and as a number (None: not a matter of numbers)."""

    message: str
    size: float | None = None


def deviation(expected: Any, actual: Any, tol: float) -> Deviation | None:
    """How `actual` differs from `expected`; None where they agree."""
    there, here = dict(_leaves(expected)), dict(_leaves(actual))
    if there.keys() != here.keys():
        return Deviation(_shapes(there, here))
    scale = max((abs(e) for e in there.values() if _is_number(e) and math.isfinite(e)), default=0.0)
    worst: tuple[float, Deviation] | None = None
    for place, e in there.items():
        r = here[place]
        if not _is_number(e):
            if not _same(e, r):
                return Deviation(f"{_at(place)}expected {e!r}, got {r!r}")
            continue
        if not isinstance(r, (int, float)):
            return Deviation(f"{_at(place)}expected {e!r}, got {r!r}")
        if r == e or (math.isnan(e) and math.isnan(r)):
            continue
        allowed, size = tol * (abs(e) + FLOOR * max(scale, 1.0)), abs(r - e)
        excess = size / allowed if math.isfinite(size) else math.inf
        if excess > 1 and (worst is None or excess > worst[0]):
            words = f"{_at(place)}expected {e!r}, got {r:.10g} (off by {size:.1e}, allowed {allowed:.1e})"
            worst = excess, Deviation(words, size)
    return None if worst is None else worst[1]


def _is_number(x: Any) -> bool:
    return isinstance(x, (int, float)) and not isinstance(x, bool)


def _same(e: Any, r: Any) -> bool:
    """Equality of what is not a number: text, truth, nothing, an empty list."""
    return isinstance(r, type(e)) and bool(r == e)


def _leaves(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """(place, leaf) of nested lists and mappings; an empty list is a leaf, so that its absence shows."""
    if isinstance(value, Tensor):
        value = value.detach().tolist()
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from _leaves(item, (*place, str(key)))
    elif isinstance(value, Sequence) and not isinstance(value, str) and value:
        for number, item in enumerate(value):
            yield from _leaves(item, (*place, number))
    else:
        yield place, list(value) if isinstance(value, tuple) else value


def _at(place: tuple[Any, ...]) -> str:
    return f"at {list(place)}: " if place else ""


def _shapes(there: Mapping[tuple[Any, ...], Any], here: Mapping[tuple[Any, ...], Any]) -> str:
    missing = next((p for p in there if p not in here), None)
    extra = next((p for p in here if p not in there), None)
    words = [f"expected {len(there)} values, got {len(here)}"]
    words += [f"none at {list(missing)}"] if missing else []
    words += [f"one too many at {list(extra)}"] if extra else []
    return "; ".join(words)
