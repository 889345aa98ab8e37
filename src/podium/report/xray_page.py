"""An X-ray of rollouts as a page of one file."""

from __future__ import annotations

import html
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from podium.report.inline import data_block, script_block
from podium.report.run_page import document
from podium.store.files import atomic_text

__all__ = ["write_xray"]


def write_xray(view: Mapping[str, Any], target: Path) -> Path:
    """Write the page of a view of `podium.analysis.token_view`; returns its path."""
    title = f"{view['run']}, iteration {view['iteration']}: {', '.join(view['methods'])}"
    call = 'drawXray(document.querySelector("#rollouts"), JSON.parse(document.querySelector("#view").textContent));'
    body = [
        f"<h1>{html.escape(title)}</h1>",
        '<div id="rollouts">This page needs JavaScript.</div>',
        data_block("view", view),
        script_block("charts.js", "xray.js", call=call),
    ]
    target.parent.mkdir(parents=True, exist_ok=True)
    atomic_text(target, document(title, "".join(body)))
    return target
