"""JSON objects and files of JSON lines, with errors that name the file and the line."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from podium.core.errors import PodiumError, nearest

__all__ = ["objects", "parse_object", "read_object", "text_of"]

LONGEST_NUMBER = 300  # digits, so that every whole number is finite as a float


def objects(file: str | Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """(line number, object) for each line that is not empty; a file without any is refused."""
    path, empty = Path(file), True
    if path.is_dir():
        raise PodiumError(f"{file} is a directory: name a file of JSON lines.")
    if not path.is_file():
        raise PodiumError(f"There is no file {str(file)!r} (looked in {Path.cwd()}).")
    with path.open("rb") as lines:
        for number, raw in enumerate(lines, 1):
            if raw.strip():
                empty = False
                where, otherwise = f"{file}, line {number}", 'a row must be a JSON object such as {"question": …}'
                yield number, parse_object(raw, where, otherwise, strict=True)
    if empty:
        raise PodiumError(f"{file} has no rows: write one JSON object per line.")


def read_object(file: Path) -> dict[str, Any]:
    """The JSON object that a file holds."""
    try:
        return parse_object(file.read_bytes(), str(file))
    except OSError as error:
        raise PodiumError(f"{file} cannot be read: {error.strerror or error}.") from error


def parse_object(
    raw: bytes, where: str, otherwise: str = "it must hold a JSON object", *, strict: bool = False
) -> dict[str, Any]:
    """The JSON object of a text; `otherwise` is the message for any other JSON value. With `strict`, for other people's
    data, only standard JSON is read: no NaN, no number beyond a float, every field once."""
    try:
        text = raw.decode("utf-8-sig")
        data = json.loads(text, object_pairs_hook=_unique, **NUMBERS) if strict else json.loads(text)
        if strict and "\\ud" in text.lower():  # half of a character can be written only as an escape
            json.dumps(data, ensure_ascii=False).encode()
    except UnicodeDecodeError as error:
        raise PodiumError(f"{where}: not UTF-8 text ({error.reason} at byte {error.start}).") from error
    except UnicodeEncodeError as error:
        half = f"\\u{ord(error.object[error.start]):04x}"
        raise PodiumError(f"{where}: {half} is half of a character; write both halves, or the character.") from error
    except ValueError as error:  # among them whole numbers of more than 4,300 digits
        raise PodiumError(f"{where}: not JSON ({error}).") from error
    except RecursionError as error:
        raise PodiumError(f"{where}: its lists and objects are nested too deep.") from error
    except _Refused as error:
        raise PodiumError(f"{where}: {error}.") from error
    if not isinstance(data, dict):
        raise PodiumError(f"{where}: {otherwise}.")
    return data


class _Refused(Exception):
    """JSON that Podium does not read; the message is the reason."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) < len(pairs):
        name, _ = Counter(name for name, _ in pairs).most_common(1)[0]
        raise _Refused(f"the field {name!r} occurs twice")
    return data


def _whole(digits: str) -> int:
    if len(digits) > LONGEST_NUMBER:
        raise _Refused(f"a number has {len(digits)} digits; write it as text")
    return int(digits)


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise _Refused(f"the number {digits[:20]} is too large")
    return number


def _no_constant(name: str) -> float:
    raise _Refused(f"{name} is no value of JSON; write null, or leave the field out")


NUMBERS: dict[str, Any] = {"parse_int": _whole, "parse_float": _finite, "parse_constant": _no_constant}


def text_of(data: Mapping[str, Any], field: str, usual: tuple[str, ...], setting: str, where: str) -> str:
    """The value of `field` as text; if it is empty, of the first of the `usual` names that the row has."""
    name = field or next((u for u in usual if u in data), None)
    if name is None:
        has = ", ".join(data) or "no fields"
        raise PodiumError(f"{where}: none of the fields {', '.join(usual)} is there (it has {has}). Set {setting}.")
    if name not in data:
        raise PodiumError(f"{where}: the row has no field {name!r} ({setting}). {nearest(name, data)}")
    value = data[name]
    if value is None:
        raise PodiumError(f"{where}: the field {name!r} is null. Fill it, leave the row out, or set {setting}.")
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, (dict, list)):
        raise PodiumError(f"{where}: the field {name!r} holds a {type(value).__name__}; text or a number is needed.")
    return str(value)
