"""`python -m tests.docs PAGE …` rewrites the outputs shown on these pages with what is printed now.

Read the diff before you keep it: a changed output may be a bug.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from tests.docs.blocks import run


def refreshed(page: Path) -> str:
    text = page.read_text(encoding="utf-8")
    for block, said, printed in run(page):
        if said is None or printed is None or said == printed:
            continue
        lead = f"```python\n{block.text}```\n\n```text\n" if block.kind == "python" else "```console\n"
        text = text.replace(f"{lead}{said}```", f"{lead}{printed}```", 1)
    return text


if __name__ == "__main__":
    pages = [Path(name).resolve() for name in sys.argv[1:]]
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        sys.path.insert(0, folder)
        for page in pages:
            page.write_text(refreshed(page), encoding="utf-8")
