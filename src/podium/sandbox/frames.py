"""Messages between processes: bytes after their length in four bytes."""

from __future__ import annotations

import json
import struct
from typing import Any

__all__ = ["ANSWER", "LARGEST_REQUEST", "Frames", "framed", "packed"]

LARGEST_REQUEST = 64 << 20  # bytes
ANSWER = struct.Struct("=Qd")  # before a server's answer: the number of the request, and its processor time in seconds


def framed(data: bytes) -> bytes:
    """A message as it is sent."""
    return len(data).to_bytes(4, "little") + data


def packed(message: Any) -> bytes:
    """A message in JSON as it is sent."""
    return framed(json.dumps(message).encode())


class Frames:
    """Collects bytes, and gives the messages that are complete."""

    def __init__(self, largest: int) -> None:
        self.largest, self._bytes = largest, bytearray()

    def add(self, data: bytes) -> list[bytes]:
        """The messages that these bytes complete. A message that is too large raises a ValueError."""
        self._bytes += data
        messages = []
        while len(self._bytes) >= 4:
            length = int.from_bytes(self._bytes[:4], "little")
            if length > self.largest:
                raise ValueError(f"a message of {length} bytes")
            if len(self._bytes) < 4 + length:
                break
            messages.append(bytes(self._bytes[4 : 4 + length]))
            del self._bytes[: 4 + length]
        return messages
