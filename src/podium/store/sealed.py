"""JSON with a checksum of its own text as the last entry: damage shows, and people can still read it."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping
from typing import Any

from podium.core.errors import PodiumError
from podium.store.json_lines import parse_object

__all__ = ["Unsealed", "seal", "unseal"]

CHECK = "check"
SEAL = re.compile(rb', "check": "([0-9a-f]{8})"}\s*\Z')


class Unsealed(PodiumError):
    """Why a text is not what was written: its check does not belong to it, or it is no JSON object."""


def seal(data: Mapping[str, Any], indent: int | None = None) -> str:
    """An object as JSON whose last entry, `check`, is the CRC-32 of the text before it."""
    text = json.dumps({k: v for k, v in data.items() if k != CHECK}, indent=indent)[:-1].rstrip()
    return f'{text}, "{CHECK}": "{_check(text.encode())}"}}'


def unseal(raw: bytes) -> tuple[dict[str, Any], bool]:
    """The object of a sealed text without its check, and whether it had one; `Unsealed` if the two disagree."""
    match = SEAL.search(raw)
    if match is not None and match[1].decode() != _check(raw[: match.start()]):
        raise Unsealed("other characters than its check says")
    try:
        data = parse_object(raw, "")
    except PodiumError as error:
        raise Unsealed(str(error).strip(": .")) from error
    if match is None and CHECK in data:
        raise Unsealed("its check is not at the end")
    data.pop(CHECK, None)
    return data, match is not None


def _check(text: bytes) -> str:
    return f"{zlib.crc32(text):08x}"
