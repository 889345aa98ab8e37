"""A method as text: formula, stages with their settings, needs, presets."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import podium
from podium.cli.console import line, paragraphs, rows
from podium.docs.catalogue_text import EntryText, MethodText, SettingText, split_arguments

__all__ = ["show_entry", "show_method"]


def show_entry(entry: EntryText) -> None:
    """Print an entry that is no method: what it is, and the command that runs it."""
    line(entry.slug, style="bold cyan")
    _print_head(entry.summary, entry.citation, entry)
    _heading("What it is")
    paragraphs(entry.notes, indent=2)
    _print_run(entry)


def show_method(
    name: str, summary: str, citation: str, method: MethodText, entry: EntryText | None, full: bool
) -> None:
    """Print a method; `entry` is its place in the catalogue, if it has one; `full`: also settings left at their
    defaults."""
    if method.description:
        line(method.description)
        return
    line(name, style="bold cyan")
    _print_head(summary, citation, entry)
    if entry is not None and entry.notes:
        formula, arguments = split_arguments(entry.notes)
        _heading("Formula")
        paragraphs(formula, indent=2)
        if arguments:
            _heading("Arguments of the recipe")
            rows(list(arguments.items()), indent=2)
    _print_stages(method, full)
    _print_needs(method)
    if entry is not None:
        _print_run(entry)
        _print_hosts(entry.slug)
        _print_protocol(entry)
    if entry is not None and entry.presets:
        _print_presets(entry)
    if not full:
        line()
        line(f"Settings left at their defaults are not shown: podium methods show {name} --all prints them.", "dim")


def _print_hosts(slug: str) -> None:
    """Which other trainers the method runs in, as was found by trying."""
    file = Path(podium.__file__).with_name("hosts.json")
    for host, outcome in json.loads(file.read_text("utf-8")).get(slug, {}).items():
        _heading(f"In {host.upper()}")
        runs = outcome.startswith("runs")
        paragraphs(f"It {outcome}." if runs else f"It does not run: {outcome}", indent=2)


def _print_head(summary: str, citation: str, entry: EntryText | None) -> None:
    for text in (summary, citation, f"{entry.kind} · family {entry.family}" if entry else ""):
        if text:
            line(f"  {text}")
    if entry is not None and entry.tags:
        line(f"  tags: {', '.join(entry.tags)}")
    if entry is not None and entry.survey:
        line(f"  feedback, reward model, optimiser: {', '.join(entry.survey)}")


def _print_run(entry: EntryText) -> None:
    if entry.run:
        _heading("Run")
        line(f"  {entry.run}")


def _heading(text: str) -> None:
    line()
    line(text, style="bold")


def _print_stages(method: MethodText, full: bool) -> None:
    _heading("Stages")
    for part in method.parts:
        line(f"  {part.stage}: {part.name}", style="cyan")
        line(f"    {part.opening}")
        _print_settings(part.settings if full else part.changed)


def _print_settings(settings: Sequence[SettingText]) -> None:
    commented = any(setting.comment for setting in settings)
    cells = []
    for setting in settings:
        comment = [f"# {setting.comment}" if setting.comment else ""] if commented else []
        cells.append([setting.path, f"= {setting.value}", *comment])
    rows(cells, indent=6)


def _print_needs(method: MethodText) -> None:
    _heading("Needs")
    for what, names in (method.needs or {}).items():
        line(f"  {what + ':':<9} {', '.join(names)}")


def _print_protocol(entry: EntryText) -> None:
    _heading("How it is trained")
    line(f"  Without --world, on {entry.home}.")
    if entry.protocol:
        rows([("", f"as published ({entry.slug}@paper)", f"by default ({entry.slug})"), *entry.protocol], indent=2)
    if entry.source:
        line(f"  Source: {entry.source}")


def _print_presets(entry: EntryText) -> None:
    _heading("Presets")
    for preset, changes in entry.presets.items():
        line(f"  {entry.slug}@{preset}", style="cyan")
        for change in changes:
            line(f"      {change.path} = {change.value}")
        if not changes:
            line(
                "      the same parts, with the published settings above" if preset == "paper" else "      the defaults"
            )
