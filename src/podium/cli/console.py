"""Printing for people and for pipes: colour and fitted tables on a terminal, plain whole lines elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

__all__ = ["error", "line", "table", "warning"]

OUT = Console(highlight=False)
ERR = Console(highlight=False, stderr=True)


def line(text: str = "", style: str = "") -> None:
    """One line as it is: never cut, never read as markup."""
    OUT.print(Text(text, style=style), soft_wrap=True)


def error(message: str) -> None:
    """One red line on the error stream."""
    ERR.print(Text(f"Error: {message}", style="bold red"), soft_wrap=True)


def warning(message: str) -> None:
    """One yellow line on the error stream."""
    ERR.print(Text(message, style="yellow"), soft_wrap=True)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Columns; on a terminal cells wrap inside its width, in a pipe every row stays one line."""
    if OUT.is_terminal:
        _fitted(header, rows)
        return
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    for cells in (header, *rows):
        line("  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip())


def _fitted(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    grid = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False)
    for number, name in enumerate(header):
        grid.add_column(name, style="" if number else "bold cyan", no_wrap=number == 0, overflow="fold")
    for cells in rows:
        grid.add_row(*map(Text, cells))
    OUT.print(grid)
