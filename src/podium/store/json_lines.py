"""JSON objects and files of JSON lines, with errors that name the file and the line."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from podium.core.errors import PodiumError, nearest

__all__ = ["objects", "parse_object", "read_object", "text_of"]


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
                row = parse_object(raw, f"{file}, line {number}", 'a row must be a JSON object such as {"question": …}')
                yield number, row
    if empty:
        raise PodiumError(f"{file} has no rows: write one JSON object per line.")


def read_object(file: Path) -> dict[str, Any]:
    """The JSON object that a file holds."""
    try:
        return parse_object(file.read_bytes(), str(file))
    except OSError as error:
        raise PodiumError(f"{file} cannot be read: {error.strerror or error}.") from error


def parse_object(raw: bytes, where: str, otherwise: str = "it must hold a JSON object") -> dict[str, Any]:
    """The JSON object of a text; `otherwise` is said of other JSON."""
    try:
        data = json.loads(raw.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise PodiumError(f"{where}: not UTF-8 text ({error.reason} at byte {error.start}).") from error
    except (ValueError, RecursionError) as error:  # among them whole numbers of more than 4,300 digits
        raise PodiumError(f"{where}: not JSON ({error}).") from error
    if not isinstance(data, dict):
        raise PodiumError(f"{where}: {otherwise}.")
    return data


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
