"""When to use an entry, what was found about it, and its citation."""

from __future__ import annotations

import re

import pytest

from podium.docs.method_page import entry_page
from podium.docs.references import bibtex, findings, when_to_use
from podium.methods import CATALOGUE

DPO = """@misc{dpo,
  title = {{Direct Preference Optimization}},
  author = {Rafailov and others},
  year = {2023},
  eprint = {2305.18290},
  archiveprefix = {arXiv},
  url = {https://arxiv.org/abs/2305.18290},
}"""


@pytest.mark.parametrize("slug", list(CATALOGUE))
def test_every_entry_says_when_to_use_it_and_how_to_cite_it(slug: str) -> None:
    assert len(when_to_use(slug)) > 20, f"add a line for {slug} to src/podium/docs/when_to_use.txt"
    cited = bibtex(slug, CATALOGUE[slug].citation)
    assert all(re.search(r"title = \{\{\w.+\}\},", entry) for entry in cited.split("\n\n"))
    assert when_to_use(slug) in entry_page(CATALOGUE[slug])
    assert cited in entry_page(CATALOGUE[slug])


def test_citations_of_all_forms() -> None:
    assert (
        bibtex("dpo", "Rafailov et al. 2023, Direct Preference Optimization, https://arxiv.org/abs/2305.18290") == DPO
    )
    assert "note = {ICML}" in (
        cited := bibtex(
            "x", "A Title: with more, ICML 2024, https://arxiv.org/abs/2405.12345, code: https://github.com/y/z"
        )
    )
    assert "title = {{A Title: with more}}" in cited
    assert "author" not in cited
    two = bibtex("x", "Lee & Kim 2024, One; Ono et al. 2020, Two, https://example.org/two")
    assert re.findall(r"@misc\{(.+),", two) == ["x", "x-2"]
    assert "author = {Lee and Kim}" in two


def test_findings_are_the_rows_of_the_tables_of_verdicts() -> None:
    found = findings("vgpo")
    assert (found[0].verdict, found[0].page) == ("agrees", "labs.md")
    assert found[0].found.startswith("0.88 and 0.81")
    assert [each.verdict for each in findings("sparkle")] == ["undecided"]
    assert findings("dapo") == []
