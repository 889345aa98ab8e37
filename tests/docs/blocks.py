"""The code blocks of a Markdown page, and how they are run.

- ```python runs; a ```text block right after it is its exact output.
- ```python title="my_file.py" (or yaml) is written to that file in the working directory.
- ```console runs its lines that start with `$ podium`; the lines between are their exact output.
- ```sh is only shown.
"""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from podium.cli import main

FENCE = re.compile(r"^```(?P<kind>\w+)(?: title=\"(?P<title>[\w.]+)\")?\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    kind: str
    text: str
    line: int  # of the page
    title: str | None
    output: str | None  # what a python block is said to print


def blocks(page: str) -> list[Block]:
    found = list(FENCE.finditer(page))
    result = []
    for match, following in zip_longest(found, found[1:]):
        output = None
        if following is not None and following["kind"] == "text" and not page[match.end() : following.start()].strip():
            output = following["text"]
        result.append(
            Block(match["kind"], match["text"], page[: match.start()].count("\n") + 1, match["title"], output)
        )
    return result


def run(page: Path) -> Iterator[tuple[Block, str | None, str | None]]:
    """(block, what it should print, what it printed) for each block of the page that runs, in its order."""
    names: dict[str, Any] = {"__name__": "guide"}
    for block in blocks(page.read_text(encoding="utf-8")):
        if block.title is not None:
            Path(block.title).write_text(block.text, encoding="utf-8")
        elif block.kind == "python":
            printed = io.StringIO()
            code = compile("\n" * block.line + block.text, str(page), "exec", dont_inherit=True)
            with contextlib.redirect_stdout(printed):
                exec(code, names)
            yield block, block.output, None if block.output is None else printed.getvalue()
        elif block.kind == "console":
            yield block, block.text, _session(block.text)


def _session(text: str) -> str:
    """The same commands with what they print now."""
    printed = io.StringIO()
    for line in text.splitlines():
        if line.startswith("$ "):
            command, *arguments = line[2:].split()
            assert command == "podium", f"only podium runs in a console block, not {command!r}: use ```sh"
            print(line, file=printed)
            with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
                main(arguments)
    return printed.getvalue()
