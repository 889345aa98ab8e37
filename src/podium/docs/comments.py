"""The comments of the fields of a value class, from its source."""

from __future__ import annotations

import ast
import functools
import inspect
import io
import itertools
import textwrap
import tokenize
from typing import Any

from podium.core.value import Value

__all__ = ["field_comments"]


def field_comments(cls: type[Value], above: bool = False) -> dict[str, str]:
    """Field name → its trailing comment; a subclass that only changes a default inherits the comment. With `above`, a
    field without one has the comment of the lines right above it."""
    comments: dict[str, str] = {}
    bases: list[Any] = [base for base in cls.__mro__ if issubclass(base, Value) and base is not Value]
    for base in reversed(bases):
        comments |= _declared_comments(base, above)
    return comments


@functools.cache
def _declared_comments(cls: Any, above: bool) -> dict[str, str]:
    """The comments of the fields that the class itself declares."""
    try:
        source = textwrap.dedent(inspect.getsource(cls))
    except (OSError, TypeError):  # a class typed into a notebook or a prompt
        return {}
    comments = {
        token.start[0]: token.string.lstrip("# ").strip()
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    }
    body = ast.parse(source).body[0]
    assert isinstance(body, ast.ClassDef)
    fields = {
        node.target.id: node
        for node in body.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }
    trailing = {name: comments[node.end_lineno] for name, node in fields.items() if node.end_lineno in comments}
    if not above:
        return trailing
    lines = source.splitlines()
    return {name: _block_above(lines, node.lineno) for name, node in fields.items()} | trailing


def _block_above(lines: list[str], line: int) -> str:
    """The comment that fills the lines right above a line (numbered from 1), as one sentence."""
    block = itertools.takewhile(lambda text: text.lstrip().startswith("#"), reversed(lines[: line - 1]))
    return " ".join(text.strip("# ").strip() for text in reversed(list(block)))
