"""A method as text: formula, stages with their settings, needs, presets."""

from __future__ import annotations

from podium.cli.console import line
from podium.core.value import opening
from podium.docs import differences, needs, settings_of
from podium.docs.reading import held
from podium.method import Method
from podium.methods.catalogue import Entry, get

__all__ = ["show"]


def show(method: Method, entry: Entry | None) -> None:
    """Print the method; `entry` is its place in the catalogue, if it has one."""
    if list(method.leaves()) != [method]:  # several in turn
        line(method.describe())
        return
    line(method.name, style="bold cyan")
    for text in (method.summary, method.citation, f"{entry.kind} · family {entry.family}" if entry else ""):
        if text:
            line(f"  {text}")
    if entry is not None and entry.notes:
        _heading("Formula")
        for text in entry.notes.splitlines():
            line(f"  {text}".rstrip())
    _stages(method)
    _needs(method)
    if entry is not None and entry.presets:
        _presets(entry)


def _heading(text: str) -> None:
    line()
    line(text, style="bold")


def _stages(method: Method) -> None:
    _heading("Stages")
    for path, value in held(method):
        line(f"  {path.partition('.')[0]}: {type(value).__name__}", style="cyan")
        line(f"    {opening(value)}")
        found = settings_of(value, path)
        width = max((len(s.path) for s in found), default=0)
        span = max((len(repr(s.value)) for s in found), default=0)
        for s in found:
            note = f"# {s.comment}" if s.comment else ""
            line(f"      {s.path:<{width}} = {s.value!r:<{span}}  {note}".rstrip(), style="" if s.changed else "dim")


def _needs(method: Method) -> None:
    need = needs(method)
    _heading("Needs")
    rows = {
        "columns": (*need.always, *need.columns),
        "signals": tuple(repr(s) for s in need.signals),
        "roles": tuple(role.name for role in method.roles),
        "memories": tuple(type(memory).__name__ for memory in method.memories),
    }
    for what, names in rows.items():
        if names:
            line(f"  {what + ':':<9} {', '.join(names)}")


def _presets(entry: Entry) -> None:
    _heading("Presets")
    plain = get(entry.slug)
    for preset in entry.presets:
        name = f"{entry.slug}@{preset}"
        line(f"  {name}", style="cyan")
        changes = differences(plain, get(name))
        for d in changes:
            line(f"      {d.path} = {d.right!r}")
        if not changes:
            line("      the defaults")
