"""One page per entry of the catalogue, in Markdown, from the docstrings and fields of the code that runs."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from podium.core.part import Part, Shape
from podium.core.term import Term
from podium.docs.catalogue_text import split_arguments
from podium.docs.evidence import BASES, evidence
from podium.docs.protocol_page import protocol_page
from podium.docs.protocol_text import home_text, protocol_rows
from podium.docs.reading import differences, held, needs, nested, settings_of
from podium.docs.references import bibtex, findings, when_to_use
from podium.method import Method
from podium.methods.catalogue import CATALOGUE, Entry, Recipe, get

__all__ = ["PAGE_MARK", "entry_page", "index", "method_page", "pages"]

PAGE_MARK = (
    "<!-- Written by `python -m podium.docs` from docstrings and fields: change those, then run `make docs`. -->"
)


def pages() -> dict[str, str]:
    """File name → text, for the whole catalogue."""
    tables = {"index.md": index(), "protocols.md": f"{PAGE_MARK}\n\n{protocol_page()}"}
    return tables | {f"{slug}.md": entry_page(entry) for slug, entry in CATALOGUE.items()}


def index() -> str:
    """The catalogue by family."""
    families: dict[str, list[Entry]] = {}
    for entry in CATALOGUE.values():
        families.setdefault(entry.family, []).append(entry)
    sections = [
        f"{PAGE_MARK}\n\n# The catalogue\n\n{len(CATALOGUE)} entries. `podium methods` lists them too, with filters. "
        "Every page says what the method reads, what each part does, and where it differs from GRPO. The last column "
        "says what the numbers rest on that the formulas are held to."
    ]
    for family, entries in families.items():
        rows = [(f"[{e.slug}]({e.slug}.md)", e.summary, _basis(e.slug)) for e in entries]
        sections.append(f"## {family}\n\n{_table(('entry', 'in one line', 'reference numbers'), rows)}")
    return "\n\n".join(sections) + "\n"


def entry_page(entry: Entry) -> str:
    """The page of one catalogue entry."""
    if isinstance(entry, Recipe):
        return method_page(entry)
    sections = (_head(entry), entry.notes, _run(entry), _findings(entry.slug), _citation(entry))
    return "\n\n".join(section for section in sections if section) + "\n"


def _head(entry: Entry) -> str:
    base = entry.extends if isinstance(entry, Recipe) else entry.slug
    extends = f" · extends [{base}]({base}.md)" if base != entry.slug else ""
    kind = f"{entry.kind.capitalize()} · family {entry.family}{extends} · {entry.citation}"
    when = when_to_use(entry.slug)
    use = f"\n\n**When to use it.** {when}" if when else ""
    return f"{PAGE_MARK}\n\n# {entry.slug}\n\n{entry.summary}{use}\n\n{kind}{_held_to(entry.slug)}"


def _findings(slug: str) -> str:
    """What our own experiments say."""
    found = findings(slug)
    if not found:
        return ""
    rows = [(each.claim, each.found, f"[{each.verdict}](../guide/{each.page})") for each in found]
    lead = "Our experiments on embedded worlds, which are far smaller than the paper's."
    return f"## Evidence\n\n{lead}\n\n{_table(('the paper says that', 'here', 'verdict'), rows)}"


def _citation(entry: Entry) -> str:
    return f"## Cite\n\n```bibtex\n{bibtex(entry.slug, entry.citation)}\n```"


def _run(entry: Entry) -> str:
    return f"## Run\n\n```sh\n{entry.run}\n```" if entry.run else ""


def method_page(entry: Recipe) -> str:
    """The page of a method."""
    method = get(entry.slug)
    text, meanings = split_arguments(entry.notes)
    formula, notes = _split(text)
    sections = [
        _head(entry),
        f"## Formula\n\n{formula}",
        _relation(entry, method, notes),
        _findings(entry.slug),
        _run(entry),
        _use(entry),
        _arguments(entry, meanings),
        _protocol(entry),
        _presets(entry, method),
        _needs(method),
        _stages(method),
        _citation(entry),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def _basis(slug: str) -> str:
    found = evidence(slug)
    return "none" if found is None else BASES[found.basis]


def _held_to(slug: str) -> str:
    found = evidence(slug)
    return "" if found is None else f"\n\nHeld to {found}."


def _split(notes: str) -> tuple[str, str]:
    """The formula, and the paragraphs after it, which say what it reduces to and where releases differ."""
    paragraphs = notes.split("\n\n")
    end = 1
    while end < len(paragraphs) and paragraphs[end].startswith("- "):  # variants belong to the formula
        end += 1
    return "\n\n".join(paragraphs[:end]), "\n\n".join(paragraphs[end:])


def _relation(entry: Recipe, method: Method, notes: str) -> str:
    if entry.slug == "grpo":
        return f"## Notes\n\n{notes}"
    rows = [(f"`{d.path}`", _code(d.left), _code(d.right)) for d in differences(get("grpo"), method)]
    table = _table(("setting or part", "grpo", entry.slug), rows)
    lead = f"{notes}\n\n" if notes else ""
    return f"## How it relates to GRPO\n\n{lead}What differs from [grpo](grpo.md) with its defaults:\n\n{table}"


def _use(entry: Recipe) -> str:
    name = entry.build.__name__
    return (
        f"## Use\n\n```python\nfrom podium import methods\n\n"
        f'method = methods.get("{entry.slug}")  # methods.{name}(...) takes the settings below\n'
        f"print(method.describe())\n```\n\n```sh\npodium methods show {entry.slug}\n```"
    )


def _arguments(entry: Recipe, meanings: Mapping[str, str]) -> str:
    parameters = inspect.signature(entry.build).parameters.values()
    if not parameters:
        return ""
    rows = [
        (f"`{p.name}`", f"`{_escaped(str(p.annotation))}`", _code(p.default), _escaped(meanings.get(p.name, "")))
        for p in parameters
    ]
    return f"## Settings of the recipe\n\n{_table(('argument', 'type', 'default', 'meaning'), rows)}"


def _protocol(entry: Recipe) -> str:
    home = f"`podium train {entry.slug}` without `--world` trains on {home_text(entry)}."
    rows = protocol_rows(entry)
    if not rows:
        return f"## How it is trained\n\n{home}"
    table = _table(("", f"as published (`{entry.slug}@paper`)", f"by default (`{entry.slug}`)"), rows)
    source = entry.protocol.source if entry.protocol is not None else ""
    return f"## How it is trained\n\n{home}\n\n{table}" + (f"\n\nSource: {source}." if source else "")


def _presets(entry: Recipe, method: Method) -> str:
    if not entry.presets:
        return ""
    rows = []
    for preset in entry.presets:
        name = f"{entry.slug}@{preset}"
        changes = [f"`{d.path}` = {_code(d.right)}" for d in differences(method, get(name))]
        same = "the same parts, with the published settings above" if preset == "paper" else "the defaults"
        rows.append((f"`{name}`", "<br>".join(changes) or same))
    return f"## Presets\n\n{_table(('preset', f'what differs from `{entry.slug}`'), rows)}"


def _needs(method: Method) -> str:
    need = needs(method)
    rows = [
        ("columns of every batch with rewards", need.always),
        ("columns from the world", need.columns),
        ("signals", [repr(s) for s in need.signals]),
        ("roles", [r.name for r in method.roles]),
        ("memories", [type(m).__name__ for m in method.memories]),
    ]
    lines = [f"- {what}: {', '.join(f'`{name}`' for name in names)}" for what, names in rows if names]
    where = (
        f"It runs in worlds that provide these columns: `podium methods check {method.name} --world NAME` asks one."
        if need.columns
        else "It runs in every world that gives rewards."
    )
    return f"## Needs\n\n{where} A CPU is enough for small models; `--device cuda` takes a GPU.\n\n" + "\n".join(lines)


def _stages(method: Method) -> str:
    sections = ["## Stages"]
    for path, value in held(method):
        lines = [f"### {path.partition('.')[0]}: {type(value).__name__}", inspect.getdoc(value) or ""]
        lines += [
            f"`{name}` (`{type(inner).__name__}`): {inspect.getdoc(inner)}"
            for name, inner in value.settings().items()
            if nested(inner)
        ]
        rows = [(f"`{s.path}`", _code(s.value), _escaped(s.comment)) for s in settings_of(value, path)]
        if rows:
            lines.append(_table(("setting", "value", "meaning"), rows))
        if isinstance(value, Part):
            lines.append(_traffic(value))
        sections.append("\n\n".join(line for line in lines if line))
    return "\n\n".join(sections)


def _traffic(part: Part) -> str:
    """What the part reads and writes, when it is evaluated, and where its formula comes from."""
    reads = ", ".join(f"`{n}`" for n in part.needs)
    writes = ", ".join(f"`{n}`" for n in part.provides)
    sentences = [
        f"Reads {reads}." if reads else "",
        f"Writes {writes}." if writes else "",
        f"Ties together: {part.couples}." if isinstance(part, Term) else "",
        "Live: evaluated once per update, on the current policy." if isinstance(part, Shape) and part.live else "",
        f"Reference: {part.reference}." if part.reference else "",
    ]
    return " ".join(s for s in sentences if s)


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def _code(value: Any) -> str:
    return f"`{_escaped(repr(value))}`"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")
