"""Values of worlds as plain JSON data and back, for the channel between a world's process and the run.

JSON alone would make lists of tuples, and text of the keys of mappings. Reading never executes anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from podium.protocols.pieces import Dialogue, ModelTokens, Picture, Pieces

__all__ = ["Unsendable", "from_wire", "to_wire"]

LONGEST_INT = 1 << 63  # JSON's readers limit the digits of larger ones
READERS: dict[str, Callable[[Any], Any]] = {
    "tuple": lambda data: tuple(map(from_wire, data)),
    "set": lambda data: set(map(from_wire, data)),
    "frozenset": lambda data: frozenset(map(from_wire, data)),
    "mapping": lambda data: {from_wire(k): from_wire(v) for k, v in data},
    "bytes": bytes.fromhex,
    "int": lambda data: int(data, 16),
    "pieces": lambda data: Pieces(*map(from_wire, data)),
    "tokens": lambda data: ModelTokens(*data),
    "picture": lambda data: Picture(str(data[0]), bytes.fromhex(data[1])),
    "dialogue": lambda data: Dialogue(*((role, from_wire(text)) for role, text in data)),
}


class Unsendable(Exception):
    """A value that cannot leave a world's process; the message says which."""


def to_wire(value: Any, name: str = "") -> Any:
    """Plain data: numbers, text and lists as they are, everything else as `{kind: content}`.

    A value that cannot be sent is `Unsendable`, which calls it by its name.
    """
    if getattr(value, "shape", None) == () and hasattr(value, "item"):
        value = value.item()  # a number of NumPy or torch
    if isinstance(value, Pieces):
        return {"pieces": [to_wire(piece, name) for piece in value.pieces]}
    if isinstance(value, ModelTokens):
        return {"tokens": list(value.tokens)}
    if isinstance(value, Dialogue):
        return {"dialogue": [[role, to_wire(text, name)] for role, text in value.messages]}
    if isinstance(value, Picture):
        return {"picture": [value.path, value.data.hex()]}
    if value is None or isinstance(value, (bool, float, str)):
        return value
    if isinstance(value, int):
        return int(value) if abs(value) < LONGEST_INT else {"int": hex(value)}
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if isinstance(value, list):
        return [to_wire(item, name) for item in value]
    if isinstance(value, (tuple, set, frozenset)):
        kind = next(kind for kind in (tuple, set, frozenset) if isinstance(value, kind))
        return {kind.__name__: [to_wire(item, name) for item in value]}
    if isinstance(value, Mapping):
        return {"mapping": [[to_wire(k, name), to_wire(v, name)] for k, v in value.items()]}
    raise Unsendable(
        f"the world's {name} holds a {type(value).__name__}, which cannot leave the world's process: use numbers, "
        "text, lists, tuples, sets or mappings, or set isolation to thread"
    )


def from_wire(data: Any) -> Any:
    """The inverse of `to_wire`; data that it has not made is a ValueError."""
    if isinstance(data, list):
        return [from_wire(item) for item in data]
    if isinstance(data, dict):
        try:
            ((kind, content),) = data.items()
            return READERS[kind](content)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ValueError(f"{str(data)[:40]} is no value of a world") from error
    return data
