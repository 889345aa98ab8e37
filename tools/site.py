"""Hooks of the documentation site (mkdocs.yml): pages that are generated, and links that leave docs/.

`make site` builds the site into .cache/site. Generated while it is built, so that they cannot go out of date: the
reference of the command line (from its help), of a run's settings (from the fields and comments of `Config`), and the
pages of the Python API (from docstrings, by mkdocstrings). Formulas of the methods are typeset.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

import typer
from mkdocs.structure.files import File, Files

from podium.cli.app import app
from podium.docs.comments import field_comments
from podium.training.config import Config, Optimizer
from tools.formulas import typeset

__all__ = ["api_page", "cli_page", "on_files", "on_page_markdown", "settings_page"]

ROOT = Path(__file__).parent.parent
TOP_PAGES = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
API = {
    "training": (
        *("podium.api.train", "podium.api.resume"),
        *("podium.sessions.evaluate.evaluate", "podium.sessions.compare.compare"),
    ),
    "batches": ("podium.core.Batch",),
    "methods": ("podium.method.Method", "podium.core.Part", "podium.method.Phases", "podium.method.Alternate"),
}
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)#\s]+)(#[^)\s]*)?\)")


def on_files(files: Files, config: Any) -> Files:
    """Add the generated pages and those that live at the top of the repository."""
    generated = {"reference/cli.md": cli_page(), "reference/settings.md": settings_page()}
    generated |= {f"reference/{name}.md": api_page(name, names) for name, names in API.items()}
    for name in TOP_PAGES:
        generated[name] = (ROOT / name).read_text("utf-8").replace("](docs/", "](")
    for path, text in generated.items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Links to files of the repository that are not part of the site become plain text; a dead link stays and fails."""
    folder = posixpath.dirname(page.file.src_uri)

    def replaced(link: re.Match[str]) -> str:
        text, target, anchor = link[1], link[2], link[3] or ""
        if "://" in target:
            return link[0]
        path = posixpath.normpath(posixpath.join("docs", folder, target))
        if path in TOP_PAGES:
            return f"[{text}]({posixpath.relpath(path, folder or '.')}{anchor})"
        outside = not path.startswith("docs/")
        return text if outside and (ROOT / path).exists() else link[0]

    linked = LINK.sub(replaced, markdown)
    return typeset(linked) if folder == "methods" else linked


def cli_page() -> str:
    """The help of every command."""
    lines = ["# Command line", ""]
    root = typer.main.get_command(app)
    for path, command in _commands(root, ()):
        name = " ".join(("podium", *path))
        text = command.get_help(command.context_class(command, info_name=name))
        lines += [f"{'#' * min(2 + len(path), 4)} {name}", "", "```text", text, "```", ""]
    return "\n".join(lines)


def _commands(command: Any, path: tuple[str, ...]) -> list[tuple[tuple[str, ...], Any]]:
    below = getattr(command, "commands", {})
    return [(path, command)] + [found for name, sub in below.items() for found in _commands(sub, (*path, name))]


def settings_page() -> str:
    """Every setting of a run: name, type, default and meaning."""
    lines = [
        "# Settings of a run",
        "",
        "Each can be given as `--set NAME=VALUE`, as an argument of `podium.train`, and as a key of `config.yaml`.",
    ]
    for cls, prefix, title in ((Config, "", "The run"), (Optimizer, "optimizer.", "The optimiser")):
        comments = field_comments(cls, above=True)
        lines += ["", f"## {title}", "", "| setting | type | default | meaning |", "| --- | --- | --- | --- |"]
        for name, field in cls.__dataclass_fields__.items():
            default = repr(field.default) if name in dir(cls) else "required"
            lines.append(f"| `{prefix}{name}` | `{field.type}` | `{default}` | {comments.get(name, '')} |")
    return "\n".join(lines) + "\n"


def api_page(name: str, names: tuple[str, ...]) -> str:
    """Docstrings and signatures, for mkdocstrings."""
    return f"# {name.capitalize()}\n\n" + "\n".join(f"::: {full}\n" for full in names)
