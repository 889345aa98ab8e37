"""What stands at the head of an entry's page besides its formula: when to use it, what was found, how to cite it."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import podium

__all__ = ["StudyFinding", "bibtex", "findings", "when_to_use"]

GUIDES = Path(podium.__file__).parents[2] / "docs" / "guide"
WHEN = Path(__file__).with_name("when_to_use.txt")
VERDICTS = "verdict"  # the last column of the tables that are read
ARXIV = re.compile(r"(?:arxiv\.org/abs/|arXiv:)(\d{2})(\d{2}\.\d{4,5})")
URL = re.compile(r"https?://[^\s;,]+")
PLACE = re.compile(r",? (?P<venue>[A-Z][A-Za-z]+) (?P<year>(?:19|20)\d\d)$|,? (?P<alone>(?:19|20)\d\d)$")
AUTHORS = re.compile(r"(?P<authors>[^,:]+?(?: et al\.)?) (?P<year>(?:19|20)\d\d), |(?P<some>[A-Z]\w+ et al\.), ")


class StudyFinding(NamedTuple):
    """A row of a table of verdicts."""

    claim: str
    found: str
    verdict: str
    page: str  # of the guide


@cache
def _uses() -> dict[str, str]:
    lines = (line for line in WHEN.read_text("utf-8").splitlines() if line and not line.startswith("#"))
    return {slug: text.strip() for slug, _, text in (line.partition(":") for line in lines)}


def when_to_use(slug: str) -> str:
    """When an entry is worth trying, and when it is not."""
    return _uses().get(slug, "")


@cache
def _verdicts() -> dict[str, list[StudyFinding]]:
    """The rows of all tables of verdicts in the guide, by the study that they belong to."""
    found: dict[str, list[StudyFinding]] = {}
    for page in sorted(GUIDES.glob("*.md")):
        slug, reading = "", False
        for line in page.read_text("utf-8").splitlines():
            cells = re.split(r"\s*\|\s*", line.strip())[1:-1] if line.startswith("|") else []
            if not cells:
                reading = False
            elif cells[0] == "study" and cells[-1] == VERDICTS:
                reading, slug = True, ""
            elif reading and len(cells) >= 3 and not set(line) <= set("|- "):
                named = re.match(r"`([\w@-]+)`", cells[0])
                slug = named[1].partition("@")[0] if named else slug
                found.setdefault(slug, []).append(StudyFinding(cells[1], cells[-2], cells[-1], page.name))
    return found


def findings(slug: str) -> list[StudyFinding]:
    """What our experiments have found about an entry; none where there is no experiment, or no checkout."""
    return _verdicts().get(slug, [])


def bibtex(slug: str, citation: str) -> str:
    """The citation of an entry for BibTeX, of each of its sources. What it does not name is left out."""
    sources = [source.strip() for source in citation.split(";")]
    titled = [source for source in sources if _title(source) and (source is sources[0] or re.search(r"\d{4}", source))]
    keys = [slug, *(f"{slug}-{number}" for number in range(2, len(titled) + 1))]
    return "\n\n".join(_entry(key, source) for key, source in zip(keys, titled, strict=True))


def _title(source: str) -> str:
    """What is left of a source without its links."""
    return re.sub(r"(?:, )?(?:code: ?|as in )?(?:https?://\S+|arXiv:\S+)", "", source).strip(" ,")


def _entry(key: str, citation: str) -> str:
    arxiv = ARXIV.search(citation)
    links = URL.findall(citation)
    text = _title(citation)
    fields: dict[str, str] = {}
    if named := AUTHORS.match(text):
        authors = named["authors"] or named["some"]
        fields["author"] = re.sub(r" et al\.$", " and others", authors.replace(" & ", " and "))
        fields |= {"year": named["year"]} if named["year"] else {}
        text = text[named.end() :]
    if placed := PLACE.search(text):
        fields |= {"year": placed["year"] or placed["alone"]}
        fields |= {"note": placed["venue"]} if placed["venue"] else {}
        text = text[: placed.start()]
    if arxiv:
        fields.setdefault("year", f"20{arxiv[1]}")
        fields |= {"eprint": arxiv[1] + arxiv[2], "archiveprefix": "arXiv"}
    if links:
        fields["url"] = links[0]
    fields = {"title": f"{{{text}}}", **fields}
    body = "".join(f"  {name} = {{{value}}},\n" for name, value in fields.items())
    return f"@misc{{{key},\n{body}}}"
