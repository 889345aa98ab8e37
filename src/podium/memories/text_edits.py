"""Edits of a numbered list of texts: add, update, delete, merge and renumber."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

__all__ = ["Edit", "Experience", "apply_edits", "numbered", "read_edits", "write_edits"]


class Experience(NamedTuple):
    """A text, and how many groups have spoken for it, less those that spoke against it."""

    text: str
    weight: float = 0.0


class Edit(NamedTuple):
    """One change of a list of texts."""

    operation: str = "ADD"  # ADD, UPDATE or DELETE; anything else changes nothing
    content: str = ""
    id: str = ""  # of the text that is updated or deleted
    votes: float = 0.0  # what it adds to the weight of a text that it leaves as it is, or gives to another


def numbered(experiences: Iterable[Experience]) -> dict[str, Experience]:
    """Texts by id: G0, G1, … in their order."""
    return {f"G{number}": experience for number, experience in enumerate(experiences)}


def apply_edits(library: Mapping[str, Experience], edits: Sequence[Edit]) -> dict[str, Experience]:
    """The library after all edits, in their order, renumbered from G0.

    UPDATE replaces a text, or adds one where there is no such id; DELETE of an unknown id does nothing. An edit without
    content is skipped whatever its operation, a DELETE too, as in the release.
    """
    after = dict(library)
    for number, edit in enumerate(edits):
        if not edit.content:
            continue
        new = Experience(edit.content, edit.votes)
        if edit.operation == "DELETE":
            after.pop(edit.id, None)
        elif edit.operation == "UPDATE" and edit.id in after:
            old = after[edit.id]
            after[edit.id] = Experience(old.text, old.weight + edit.votes) if old.text == edit.content else new
        elif edit.operation in ("ADD", "UPDATE"):
            after[f"new {number}"] = new
    return numbered(after.values())


def read_edits(text: str) -> list[Edit] | None:
    """The edits in a JSON list, perhaps with words around it; None where there is no such list.

    A missing operation means ADD.
    """
    start, end = text.find("["), text.rfind("]")
    try:
        rows = json.loads(text[start : end + 1]) if 0 <= start < end else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        return None
    return [_edit(row) for row in rows]


def _edit(row: Mapping[str, Any]) -> Edit:
    content, name, votes = row.get("content"), row.get("id"), row.get("votes", 0.0)
    return Edit(
        str(row.get("operation") or "ADD").upper(),
        content.strip() if isinstance(content, str) else "",
        name if isinstance(name, str) else "",
        float(votes) if isinstance(votes, (int, float)) else 0.0,
    )


def write_edits(edits: Iterable[Edit]) -> str:
    """The inverse of `read_edits`."""
    return json.dumps([edit._asdict() for edit in edits])
