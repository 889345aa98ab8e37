"""What the hand-written pages say is what happens."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.blocks import blocks, run

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
WRITTEN = [page for page in PAGES if page.parent.name != "methods"]  # by hand


EXTRAS = {"search.md": "bm25s"}  # the package that a page needs


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_block_runs_and_prints_what_the_page_says(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if page.name in EXTRAS:
        pytest.importorskip(EXTRAS[page.name])
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
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


def headings(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    found = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in found}


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_links_to_headings_lead_to_one(page: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", page.read_text(encoding="utf-8")):
        assert anchor in headings(page.parent / target if target else page), f"{named(page)}: {target}#{anchor}"


def test_the_index_leads_to_every_page() -> None:
    index = ROOT / "docs" / "index.md"
    linked = re.findall(r"\]\(([^)#:]+)", index.read_text(encoding="utf-8"))
    there = {(index.parent / target).resolve() for target in linked}
    assert set(WRITTEN) - {index, ROOT / "README.md"} <= there


COMMAND = re.compile(r"(?:python (benchmarks/[\w]+\.py|-m [\w.]+)|(examples/\w+\.py))")


@pytest.mark.parametrize("page", WRITTEN, ids=named)
def test_the_programs_that_a_page_names_are_there(page: Path) -> None:
    for found in COMMAND.finditer(page.read_text(encoding="utf-8")):
        place = (found[1] or found[2]).removeprefix("-m ")
        if place.endswith(".py"):
            assert (ROOT / place).is_file(), f"{named(page)} names {place}"
        else:
            places = [ROOT / root / place.replace(".", "/") for root in ("", "src")]
            assert any(p.with_suffix(".py").is_file() or (p / "__main__.py").is_file() for p in places), place
