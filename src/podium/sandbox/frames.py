"""Messages between processes: JSON after its length in four bytes."""

from __future__ import annotations

import json
import os
from typing import Any

__all__ = ["Frames", "packed"]


def packed(message: Any) -> bytes:
    """A message as it is sent."""
    data = json.dumps(message).encode()
    return len(data).to_bytes(4) + data


class Frames:
    """Collects bytes, and gives the messages that are complete."""

    def __init__(self, largest: int) -> None:
        self.largest, self._bytes = largest, bytearray()

    def add(self, data: bytes) -> list[Any]:
        """The messages that these bytes complete. Bytes that are no messages raise a ValueError."""
        self._bytes += data
        messages = []
        while len(self._bytes) >= 4:
            length = int.from_bytes(self._bytes[:4])
            if length > self.largest:
                raise ValueError(f"a message of {length} bytes")
            if len(self._bytes) < 4 + length:
                break
            messages.append(json.loads(bytes(self._bytes[4 : 4 + length])))
            del self._bytes[: 4 + length]
        return messages


def write_all(handle: int, data: bytes) -> None:
    """Write all of it, however large the buffer of the channel is."""
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]
