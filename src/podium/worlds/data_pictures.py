"""Pictures in rows of data: paths, base64, or the bytes that `datasets` keeps, put where the prompt says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from podium.core.errors import PodiumError
from podium.protocols.pieces import Dialogue, Picture, Pieces
from podium.store.pictures import decode_base64, open_picture

__all__ = ["pictures_of", "with_pictures"]

MARK = "<image>"  # in a prompt: where a picture stands
LONGEST_PATH = 1024  # characters: a longer text is base64
MOST = 16  # pictures of a row


def pictures_of(value: Any, folder: Path, where: str) -> list[Picture]:
    """The pictures in a field. Each is opened once here, so that one that cannot be seen is named with its row."""
    values = value if isinstance(value, (list, tuple)) else [value]
    if len(values) > MOST:
        raise PodiumError(f"{where}: {len(values)} pictures are more than {MOST}.")
    return [_picture(each, folder, where) for each in values]


def _picture(value: Any, folder: Path, where: str) -> Picture:
    if isinstance(value, Mapping):  # as `datasets` and parquet files keep them
        value = value.get("bytes") or value.get("path")
    if isinstance(value, bytes):
        picture = Picture(data=value)
    elif isinstance(value, str) and value:
        file = _file(value, folder)
        picture = Picture(data=decode_base64(value, where)) if file is None else Picture(str(file))
    else:
        raise PodiumError(f"{where}: a picture is a path, base64 or bytes, not a {type(value).__name__}.")
    try:
        open_picture(picture.read(), str(picture))
    except PodiumError as error:
        raise PodiumError(f"{where}: {error}") from error
    return picture


def _file(text: str, folder: Path) -> Path | None:
    """The file that a text names, which need not be there if the text looks like a path; None: it is base64."""
    if text.startswith("data:") or len(text) > LONGEST_PATH:
        return None
    path = folder / Path(text).expanduser()
    return path if path.is_file() or Path(text).suffix else None


def with_pictures(prompt: str, pictures: Sequence[Picture], where: str) -> str:
    """The prompt with its pictures: where it says `<image>`, otherwise before the text of the last message."""
    if isinstance(prompt, Dialogue):
        *before, (role, text) = prompt.messages
        marked = [n for n, (_, said) in enumerate(prompt.messages) if MARK in said]
        if marked and marked != [len(before)]:
            return _in_messages(prompt, list(pictures), where)
        return Dialogue(*before, (role, with_pictures(text, pictures, where)))
    count = prompt.count(MARK)
    if not count:
        return Pieces(*(piece for picture in pictures for piece in (picture, "\n")), prompt)
    if count != len(pictures):
        raise PodiumError(f"{where}: the prompt says {MARK} {count} times, and the row has {len(pictures)} pictures.")
    texts = prompt.split(MARK)
    between = [piece for picture, text in zip(pictures, texts[1:], strict=True) for piece in (picture, text)]
    return Pieces(texts[0], *between)


def _in_messages(prompt: Dialogue, pictures: list[Picture], where: str) -> Dialogue:
    """The pictures at the marks of several messages."""
    messages = []
    for role, text in prompt.messages:
        count = text.count(MARK)
        messages.append((role, with_pictures(text, pictures[:count], where) if count else text))
        pictures = pictures[count:]
    if pictures:
        raise PodiumError(f"{where}: the row has {len(pictures)} more pictures than its messages have {MARK}.")
    return Dialogue(*messages)
