"""Code of a script or a notebook, saved so that another process finds it later.

A run names its world, its parts and its reward functions by file. Those that a script defines cannot be found there
without running the script again, and those of a notebook cannot be found at all. So the definitions that they need are
copied: functions, classes, imports and assignments at the top level, and nothing else.
"""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from podium.core.errors import PodiumError

__all__ = ["MAIN", "definitions", "script_source"]

MAIN = "__main__"
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def script_source() -> str:
    """The source of the script or notebook that is being run; empty if nobody knows it."""
    main = sys.modules[MAIN]
    cells = getattr(main, "In", None)
    if isinstance(cells, list):  # of a notebook, without its commands
        kept = (
            "\n".join(row for row in cell.splitlines() if not row.lstrip().startswith(("%", "!"))) for cell in cells
        )
        return "\n".join(cell for cell in kept if _parses(cell))
    file = getattr(main, "__file__", None)
    return Path(file).read_text("utf-8") if file and Path(file).is_file() else ""


def _parses(text: str) -> bool:
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


def definitions(source: str, names: Iterable[str]) -> str:
    """The statements at the top level of a source that define these names, and all that those need in turn.

    Refuses a name that is not defined there, or that needs something which is made in another way.
    """
    statements = ast.parse(source).body
    defined: dict[str, int] = {}  # the last definition of each name
    for number, statement in enumerate(statements):
        defined |= dict.fromkeys(_bound(statement), number)
    loose = {name for statement in statements if not any(_bound(statement)) for name in _stored(statement)}
    wanted, chosen = list(names), set[int]()
    for name in wanted:
        if name not in defined:
            raise PodiumError(
                f"{name} cannot be saved with the run: it is not defined at the top level of the script by def, class, "
                "import or an assignment. Put it into a file of its own, and name that: my_file.py:" + name
            )
        number = defined[name]
        if number in chosen:
            continue
        chosen.add(number)
        for used in sorted(_loaded(statements[number])):
            if used in defined:
                wanted.append(used)
            elif used in loose and not hasattr(builtins, used):
                raise PodiumError(
                    f"{name} cannot be saved with the run: it uses {used}, which is set inside another statement of "
                    "the script. Assign it at the top level, or put both into a file of their own."
                )
    future = {n for n, s in enumerate(statements) if isinstance(s, ast.ImportFrom) and s.module == "__future__"}
    return "\n\n\n".join(_text(source, statements[n]) for n in sorted(chosen | future)) + "\n"


def _text(source: str, statement: ast.stmt) -> str:
    """The lines of a statement, with its decorators and without what stands beside it."""
    first = min([statement.lineno, *(d.lineno for d in getattr(statement, "decorator_list", ()))])
    return "\n".join(source.splitlines()[first - 1 : statement.end_lineno])


def _bound(statement: ast.stmt) -> Iterator[str]:
    """The names that a statement which may be copied defines."""
    if isinstance(statement, Definition):
        yield statement.name
    elif isinstance(statement, (ast.Import, ast.ImportFrom)):
        yield from (alias.asname or alias.name.partition(".")[0] for alias in statement.names)
    elif isinstance(statement, (ast.Assign, ast.AnnAssign)):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        yield from (node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name))
    elif isinstance(statement, ast.Try) and all(isinstance(s, (ast.Import, ast.ImportFrom)) for s in statement.body):
        yield from (name for part in statement.body for name in _bound(part))


def _stored(statement: ast.stmt) -> Iterator[str]:
    return (n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))


def _loaded(statement: ast.stmt) -> set[str]:
    """The names that a statement uses and does not define itself."""
    nodes = list(ast.walk(statement))
    loaded = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    own = {node.arg for node in nodes if isinstance(node, ast.arg)}
    if isinstance(statement, Definition):
        own |= set(_stored(statement))
    return loaded - own
