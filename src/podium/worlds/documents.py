"""The documents of a folder, cut into passages that a search can show."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from podium.core.errors import PodiumError
from podium.store.json_lines import objects, text_of

__all__ = ["Passage", "passages_of", "read_passages"]

SUFFIXES = (".txt", ".md", ".jsonl")
TEXTS = ("text", "contents")  # the field of a row with the text of a document
TITLE = 80  # characters of a title that are kept
SENTENCE = re.compile(r"(?<=[.!?])\s+")
HEADING = re.compile(r"^# *(\S.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Passage:
    """A part of a document, on one line."""

    title: str
    text: str

    def __str__(self) -> str:
        return f"{self.title}: {self.text}" if self.title else self.text


@dataclass(frozen=True)
class _Document:
    name: str  # no two have the same
    title: str
    text: str
    where: str  # file and line


def read_passages(folder: Path, longest: int, apart: Path) -> list[Passage]:
    """The passages, of up to `longest` characters, of all documents in a folder and its subfolders but the file
    `apart`. A text or Markdown file is a document, and so is each row of a file of JSON lines."""
    inside = ((path.relative_to(folder), path) for path in folder.rglob("*") if path != apart)
    files = sorted(
        (place.as_posix(), path)
        for place, path in inside
        if path.suffix.lower() in SUFFIXES and path.is_file() and not any(part[0] == "." for part in place.parts)
    )
    if not files:
        raise PodiumError(f"{folder} has no documents: put .txt, .md or .jsonl files into it.")
    first: dict[str, str] = {}  # where the document of a name is
    passages = []
    for place, path in files:
        for document in _documents(path, place):
            if document.name in first:
                raise PodiumError(
                    f"{document.where}: the id {document.name!r} is that of {first[document.name]} too; ids are unique."
                )
            first[document.name] = document.where
            if not re.search(r"\w", document.text):
                raise PodiumError(f"{document.where}: the document has no words. Fill it, or leave it out.")
            title = next(iter(passages_of(document.title, TITLE)), "")
            passages += [Passage(title, text) for text in passages_of(document.text, longest)]
    return passages


def passages_of(text: str, longest: int) -> list[str]:
    """A text as pieces of up to `longest` characters that end with a sentence where they can, else with a word."""
    pieces: list[str] = []
    for sentence in SENTENCE.split(text):
        words = " ".join(sentence.split())
        if pieces and len(pieces[-1]) + 1 + len(words) <= longest:
            pieces[-1] = f"{pieces[-1]} {words}".rstrip()
        else:
            pieces += textwrap.wrap(words, longest, break_on_hyphens=False)
    return pieces


def _documents(path: Path, place: str) -> Iterator[_Document]:
    try:
        if path.suffix.lower() == ".jsonl":
            yield from _rows(path, place)
            return
        text = _decoded(path)
    except OSError as error:
        raise PodiumError(f"{path} cannot be read: {error.strerror or error}.") from error
    heading = HEADING.search(text) if path.suffix.lower() == ".md" else None
    title = heading[1].strip("# ") if heading else path.stem.replace("_", " ")
    yield _Document(place, title, text, str(path))


def _rows(path: Path, place: str) -> Iterator[_Document]:
    for line, row in objects(path):
        where = f"{path}, line {line}"
        name = text_of(row, "id", (), "id", where) if "id" in row else f"{place}:{line}"
        title = text_of(row, "title", (), "title", where) if row.get("title") is not None else ""
        found = [field for field in TEXTS if field in row]
        if not found:
            raise PodiumError(f"{where}: a document needs a field 'text' (it has {', '.join(row) or 'no fields'}).")
        if not isinstance(row[found[0]], str):
            raise PodiumError(f"{where}: the field {found[0]!r} is not text. Write it in quotation marks.")
        yield _Document(name, title, row[found[0]], where)


def _decoded(path: Path) -> str:
    raw = path.read_bytes()
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise PodiumError(
            f"{path}, line {line}: not UTF-8 text ({error.reason} at byte {error.start}). Save it as UTF-8."
        ) from error
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise PodiumError(f"{path}, line {line}: a zero byte, so this is no text. Save it as UTF-8, or leave it out.")
    return text
