"""`python -m podium.docs OUT` writes one page per method into the folder OUT, and the index into the package."""

from __future__ import annotations

import sys
from pathlib import Path

from podium.docs.index import write_index
from podium.docs.method_page import PAGE_MARK, pages


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print("Usage: python -m podium.docs OUT", file=sys.stderr)
        return 2
    out = Path(arguments[0])
    out.mkdir(parents=True, exist_ok=True)
    texts = pages()
    for old in out.glob("*.md"):
        if old.name not in texts and old.read_text(encoding="utf-8").startswith(PAGE_MARK):  # of an entry that is gone
            old.unlink()
    for name, text in texts.items():
        (out / name).write_text(text, encoding="utf-8")
    print(f"{len(texts)} pages in {out}")
    write_index()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
