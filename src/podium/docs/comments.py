"""The trailing comments of the fields of a value class, from its source."""

from __future__ import annotations

import ast
import functools
import inspect
import io
import textwrap
import tokenize
from typing import Any

from podium.core.value import Value

__all__ = ["field_comments"]


def field_comments(cls: type[Value]) -> dict[str, str]:
    """Field name → its trailing comment; a subclass that only changes a default inherits the comment."""
    comments: dict[str, str] = {}
    bases: list[Any] = [base for base in cls.__mro__ if issubclass(base, Value) and base is not Value]
    for base in reversed(bases):
        comments |= _declared_comments(base)
    return comments


@functools.cache
def _declared_comments(cls: Any) -> dict[str, str]:
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
    return {
        node.target.id: comments[node.end_lineno]
        for node in body.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.end_lineno in comments
    }
