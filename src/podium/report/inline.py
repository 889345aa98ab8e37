"""The scripts and data of the live page, written into a page of one file."""

from __future__ import annotations

import json
import re
from importlib import resources
from typing import Any

__all__ = ["data_block", "page_style", "script_block"]

IMPORT = re.compile(r"^import .*$", re.M)
EXPORT = re.compile(r"^export ", re.M)


def page_style() -> str:
    """The style of every page."""
    folder = resources.files("podium.report")
    return "\n".join(folder.joinpath(*name).read_text("utf-8") for name in (("style.css",), ("web", "page.css")))


def script_block(*names: str, call: str) -> str:
    """Modules of the live page as one script, which ends with `call`. A page of one file cannot import."""
    folder = resources.files("podium.report")
    sources = []
    for name in names:
        text = EXPORT.sub("", IMPORT.sub("", folder.joinpath("web", name).read_text("utf-8")))
        # Each module has constants of its own, so it gets a scope of its own; its functions are handed on.
        exported = re.findall(
            r"^export (?:function|const) (\w+)", folder.joinpath("web", name).read_text("utf-8"), re.M
        )
        sources.append(
            f"const {{{', '.join(exported)}}} = (() => {{\n{text}\nreturn {{{', '.join(exported)}}};\n}})();"
        )
    joined = "\n".join(sources)
    return f'<script type="module">\n{joined}\n{call}\n</script>'


def data_block(name: str, data: Any) -> str:
    """Data for a script. Whatever texts it holds, none of them ends the element."""
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    return f'<script type="application/json" id="{name}">{text}</script>'
