"""What the hand-written pages say is what happens."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.blocks import blocks, run

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_block_runs_and_prints_what_the_page_says(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)  # as for a script in the same folder
    for block, said, printed in run(page):
        assert printed == said, f"{named(page)}, line {block.line}"


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{named(page)} links to {target}"


def test_the_runner_sees_a_wrong_output(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```python\nprint(1 + 1)\n```\n\n```text\n3\n```\n")
    [(_, said, printed)] = run(page)
    assert (said, printed) == ("3\n", "2\n")


def test_an_estimator_of_your_own_takes_at_most_twenty_lines() -> None:
    page = (ROOT / "docs" / "guide" / "parts.md").read_text(encoding="utf-8")
    [mine] = [block for block in blocks(page) if block.title == "my_file.py"]
    assert len(mine.text.splitlines()) <= 20
