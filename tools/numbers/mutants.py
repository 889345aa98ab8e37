"""Mutants of a function: its code with one sign, factor, bound, term or comparison changed."""

from __future__ import annotations

import ast
import copy
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import CodeType
from typing import Any

import torch

from podium.core.memory import Table
from tools.numbers.entry_points import SOURCE, Subject

__all__ = ["BENT", "Mutant", "bent", "mutants"]

BENT = "__bent__"  # the name under which `bent` stands in the module of a mutant
SIGNS: dict[type[ast.operator], type[ast.operator]] = {ast.Add: ast.Sub, ast.Sub: ast.Add}
FACTORS: dict[type[ast.operator], type[ast.operator]] = {ast.Mult: ast.Div, ast.Div: ast.Mult}
BOUNDS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
}
OPPOSITES: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.GtE,
    ast.LtE: ast.Gt,
    ast.Gt: ast.LtE,
    ast.GtE: ast.Lt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
}
WORDS = {"mean": "sum", "sum": "mean", "min": "max", "max": "min", "amin": "amax", "amax": "amin"}
ORDERS = ("descending", "largest", "reverse")


@dataclass(frozen=True)
class Mutant:
    """What was changed where, and the code to put in place of the function's own."""

    line: int
    at: str  # what stands in that line
    change: str
    code: CodeType


def mutants(subject: Subject) -> Iterator[Mutant]:
    """Every mutant of a function."""
    tree, lines = _alone(subject), _source(subject.file).splitlines()
    places = len(list(_nodes(tree)))
    for place in range(places):
        for kind in range(3):
            copied = copy.deepcopy(tree)
            node, replace = list(_nodes(copied))[place]
            changes = _changes(node)
            if kind >= len(changes):
                break
            words, change = changes[kind]
            replace(change())
            yield Mutant(node.lineno, lines[node.lineno - 1].strip(), words, _code(copied, subject))


# -- what is changed ---------------------------------------------------------------------------------------------------

Change = tuple[str, Callable[[], ast.AST]]


def _changes(node: Any) -> list[Change]:
    """What can be changed of a node: words, and a function that makes the node that stands in its place."""
    shown = ast.unparse(node).replace("\n", " ")
    if isinstance(node, ast.BinOp):
        return _of_operation(node, shown)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and not isinstance(node.operand, ast.Constant):
        return [(f"sign of {shown}", lambda: node.operand)]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.Invert)):
        return [(f"negation of {shown} dropped", lambda: node.operand)]
    if isinstance(node, ast.AugAssign) and type(node.op) in SIGNS | FACTORS:
        return [(f"operator of {shown}", lambda: _with(node, op=(SIGNS | FACTORS)[type(node.op)]()))]
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        found = []
        if type(node.ops[0]) in OPPOSITES:
            found.append((f"opposite of {shown}", lambda: _with(node, ops=[OPPOSITES[type(node.ops[0])]()])))
        if type(node.ops[0]) in BOUNDS:
            found.append((f"bound of {shown}", lambda: _with(node, ops=[BOUNDS[type(node.ops[0])]()])))
        return found
    if isinstance(node, ast.BoolOp):
        other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        return [(f"and/or of {shown}", lambda: _with(node, op=other))]
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return [(f"{node.value} off by one", lambda: ast.Constant(node.value + 1))]
    if isinstance(node, ast.Constant) and type(node.value) is float and node.value:
        return [(f"{node.value} doubled", lambda: ast.Constant(2 * node.value))]
    if isinstance(node, ast.keyword) and node.arg in ORDERS and isinstance(node.value, ast.Constant):
        return [(f"{shown} flipped", lambda: _with(node, value=ast.Constant(not node.value.value)))]
    if isinstance(node, ast.Attribute) and node.attr in WORDS and isinstance(node.ctx, ast.Load):
        return [(f"{shown} made {WORDS[node.attr]}", lambda: _with(node, attr=WORDS[node.attr]))]
    if isinstance(node, ast.Return) and node.value is not None:
        return [("result bent", lambda: _with(node, value=_call(BENT, node.value)))]
    return []


def _of_operation(node: ast.BinOp, shown: str) -> list[Change]:
    if any(isinstance(side, (ast.JoinedStr, ast.List, ast.Tuple)) or _text(side) for side in (node.left, node.right)):
        return []  # texts and lists are joined, not added
    swaps = SIGNS | FACTORS
    if type(node.op) in swaps:
        return [
            (f"operator of {shown}", lambda: _with(node, op=swaps[type(node.op)]())),
            (f"right side of {shown} dropped", lambda: node.left),
        ]
    if isinstance(node.op, (ast.BitAnd, ast.BitOr)):
        other = ast.BitOr() if isinstance(node.op, ast.BitAnd) else ast.BitAnd()
        return [(f"operator of {shown}", lambda: _with(node, op=other))]
    if isinstance(node.op, (ast.Pow, ast.FloorDiv, ast.Mod)):
        return [(f"right side of {shown} dropped", lambda: node.left)]
    return []


def _text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _with(node: Any, **fields: Any) -> Any:
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed


def _call(name: str, value: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(name, ast.Load()), [value], [])


def bent(value: Any) -> Any:
    """A result a quarter larger: numbers and tensors of numbers, alone or in dictionaries, lists and tables.

    Of lists of other things the last is dropped, of texts all.
    """
    if isinstance(value, torch.Tensor):
        if value.dtype == torch.bool:
            return ~value
        return value * 1.25 if value.is_floating_point() else value + 1
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return value * 1.25
    if isinstance(value, dict):
        return {name: bent(x) for name, x in value.items()}
    if isinstance(value, Table):
        return Table({task: bent(row) for task, row in value.rows.items()}, value.default)
    if isinstance(value, str):
        return ""
    if type(value) in (list, tuple):
        items = type(value)(bent(x) for x in value)
        return items if any(a is not b for a, b in zip(items, value, strict=True)) else value[:-1]
    return value


# -- from source to code -----------------------------------------------------------------------------------------------


@functools.cache
def _source(file: str) -> str:
    return (SOURCE / file).read_text("utf-8")


def _alone(subject: Subject) -> ast.Module:
    """The module of a function with nothing but the function, in its class."""
    module = ast.parse(_source(subject.file))
    owner, _, name = subject.name.rpartition(".")
    body: list[ast.stmt] = [s for s in module.body if isinstance(s, ast.ImportFrom) and s.module == "__future__"]
    if owner:
        found = next(s for s in module.body if isinstance(s, ast.ClassDef) and s.name == owner)
        own = [s for s in found.body if isinstance(s, ast.FunctionDef) and s.name == name]
        body.append(ast.ClassDef(owner, [], [], own[:1], []))
    else:
        body += [s for s in module.body if isinstance(s, ast.FunctionDef) and s.name == name][:1]
    return ast.fix_missing_locations(ast.Module(body, []))


def _function(tree: ast.Module) -> ast.FunctionDef:
    last = tree.body[-1]
    function = last.body[0] if isinstance(last, ast.ClassDef) else last
    assert isinstance(function, ast.FunctionDef)
    return function


def _nodes(tree: ast.Module) -> Iterator[tuple[Any, Callable[[Any], None]]]:
    """The nodes of the function's body that may be changed, each with a function that replaces it."""
    function = _function(tree)
    for number, statement in enumerate(function.body):
        if not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)):
            yield from _below(function.body, number, statement)


def _below(owner: Any, key: Any, node: Any) -> Iterator[tuple[Any, Callable[[Any], None]]]:
    if isinstance(node, (ast.Raise, ast.Assert, ast.JoinedStr)):
        return  # messages
    if _is_stream(node):
        return  # which stream of random numbers is drawn from is as good as another

    def replace(other: Any) -> None:
        if isinstance(owner, list):
            owner[key] = other
        else:
            setattr(owner, key, other)

    yield node, replace
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        if isinstance(value, list):
            for number, item in enumerate(value):
                if isinstance(item, ast.AST):
                    yield from _below(value, number, item)
        elif isinstance(value, ast.AST) and hasattr(value, "lineno"):
            yield from _below(node, name, value)


def _is_stream(node: ast.AST) -> bool:
    if isinstance(node, ast.keyword):
        return node.arg in ("wave", "chance")
    if isinstance(node, (ast.Assign, ast.AugAssign)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return any(isinstance(x, ast.Name) and x.id in ("wave", "chance") for t in targets for x in ast.walk(t))
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "key"


def _code(tree: ast.Module, subject: Subject) -> CodeType:
    module = compile(ast.fix_missing_locations(tree), str(SOURCE / subject.file), "exec", dont_inherit=True)
    code = module
    for name in subject.name.split("."):
        code = next(c for c in code.co_consts if isinstance(c, CodeType) and c.co_name == name)
    return code
