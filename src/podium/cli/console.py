"""Printing for people and for pipes: colour and text that fits on a terminal, plain whole lines elsewhere.

Everything that the commands print goes through here, where control characters in it are made visible: names, answers
and errors may come from files and models.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Sequence
from typing import TextIO

from podium.core.printable import printable

__all__ = ["error", "line", "paragraphs", "rows", "table", "unbroken", "warning", "wrapped"]

CODES = {"bold": "1", "dim": "2", "red": "31", "yellow": "33", "cyan": "36"}
GAP = 2  # spaces between columns
SIGNS = r"[./,:=(]"  # after which a path or a line of code may be broken
ITEM = re.compile(r"\s*(- |\d+\. )?")


def line(text: str = "", style: str = "") -> None:
    """Text as it is, never read as markup; a terminal gets it broken between words, under its indentation."""
    _print(sys.stdout, text, style)


def unbroken(text: str) -> None:
    """YAML or JSON, which is never broken into lines of the terminal's width."""
    print(printable(text), end="")


def error(message: str) -> None:
    """One red line on the error stream."""
    _print(sys.stderr, f"Error: {message}", "bold red")


def warning(message: str) -> None:
    """One yellow line on the error stream."""
    _print(sys.stderr, message, "yellow")


def paragraphs(text: str, indent: int = 0) -> None:
    """Paragraphs that were broken for a source file: a terminal gets them broken for its own width."""
    space = " " * indent
    if not _is_terminal(sys.stdout):
        for row in text.splitlines():
            line(f"{space}{row}".rstrip())
        return
    for row in _joined(text):
        line(f"{space}{row}".rstrip())


def table(header: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    """Columns under a header."""
    rows([header, *cells], header=True)


def rows(cells: Sequence[Sequence[str]], *, header: bool = False, indent: int = 0, least: int = 0) -> None:
    """Columns. In a pipe every row stays one line. On a terminal cells are broken between words where the columns are
    wider than the screen; where even that is too wide, each row becomes a short list. `least`: of the first column."""
    if not cells:
        return
    cells = [[printable(cell) for cell in row] for row in cells]
    space = " " * indent
    natural = [max(map(len, column)) for column in zip(*cells, strict=True)]
    natural[0] = max(natural[0], least)
    if not _is_terminal(sys.stdout):
        for row in cells:
            line((space + _beside(row, natural)).rstrip())
        return
    room = _width() - indent
    widths = _fitted(cells, natural, room)
    if widths is None:
        _lists(cells, header, indent)
        return
    for number, row in enumerate(cells):
        broken = [wrapped(cell, width) for cell, width in zip(row, widths, strict=True)]
        for place in range(max(map(len, broken))):
            parts = [column[place] if place < len(column) else "" for column in broken]
            text = _beside(parts, widths)
            if header and number == 0:
                text = _styled(text, "bold")
            elif place == 0:
                text = _styled(parts[0], "bold cyan") + text[len(parts[0]) :]
            print(space + text)
        if header and number == 0:
            line(space + "─" * min(room, sum(widths) + GAP * (len(widths) - 1)))


def wrapped(text: str, width: int) -> list[str]:
    """The lines of a text, broken between words; only a word that is wider than a whole line is broken itself, after a
    dot, a slash or another sign if it has one."""
    if len(text) <= width:
        return [text]
    lines, current = [], ""
    for word in text.split(" "):
        if current and len(current) + 1 + len(word) > width:
            lines.append(current)
            current = word
        else:
            current = f"{current} {word}" if current else word
        at = 0
        while len(current) - at > width:
            piece = current[at : at + width]
            ends = [m.end() for signs in (SIGNS, r"[_-]") for m in list(re.finditer(signs, piece))[-1:]]
            cut = ends[0] if ends else width
            lines.append(piece[:cut])
            at += cut
        current = current[at:]
    return [*lines, current]


def _is_terminal(stream: TextIO) -> bool:
    return stream.isatty()


def _width() -> int:
    return shutil.get_terminal_size().columns


def _styled(text: str, style: str) -> str:
    """The text in colour, unless the environment asks for none."""
    if not style or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    return f"\x1b[{';'.join(CODES[word] for word in style.split())}m{text}\x1b[0m"


def _print(stream: TextIO, text: str, style: str) -> None:
    text = printable(text)
    if not _is_terminal(stream):
        print(text, file=stream)
        return
    width = _width()
    for row in text.split("\n"):
        lead = ITEM.match(row)
        assert lead is not None
        under = min(lead.end(), width // 2) if len(row) > width else 0
        first, *others = wrapped(row[under:], width - under)
        for part in (row[:under] + first, *(" " * under + other for other in others)):
            print(_styled(part, style), file=stream)


def _joined(text: str) -> list[str]:
    """Each paragraph and each item of a list as one line."""
    joined: list[str] = []
    for row in text.splitlines():
        begins = not row or row.startswith((" ", "- ")) or not joined or not joined[-1]
        if begins and not (row.startswith("  ") and joined and joined[-1].startswith("- ")):
            joined.append(row)
        else:
            joined[-1] = f"{joined[-1]} {row.strip()}"
    return joined


def _beside(cells: Sequence[str], widths: Sequence[int]) -> str:
    return (" " * GAP).join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()


def _fitted(cells: Sequence[Sequence[str]], natural: Sequence[int], room: int) -> list[int] | None:
    """The widths of columns that fit: no column is narrower than its longest word (or piece of
    a path), and the widest ones give way first.
    None if that cannot be."""
    room -= GAP * (len(natural) - 1)
    pieces = re.compile(rf"(?<={SIGNS})|\s+")
    longest = [
        max(len(piece) for cell in column for piece in pieces.split(cell)) for column in zip(*cells, strict=True)
    ]
    longest[0] = natural[0]  # names stay whole
    widths = list(natural)
    while sum(widths) > room:
        spare = [(width, number) for number, width in enumerate(widths) if width > longest[number]]
        if not spare:
            return None
        widths[max(spare)[1]] -= 1
    return widths


def _lists(cells: Sequence[Sequence[str]], header: bool, indent: int) -> None:
    """Each row as its name, with the other cells under it."""
    names = cells[0] if header else [""] * len(cells[0])
    space = " " * indent
    for name, *others in cells[1:] if header else cells:
        line(f"{space}{name}", style="bold cyan")
        for label, cell in zip(names[1:], others, strict=True):
            if cell:
                line(f"{space}  {label}: {cell}" if label else f"{space}  {cell}")
