"""A guard against answers that are programs: scorers that evaluate an answer may compute with it, nothing more.

The process around a call is what keeps an attack in. The guard keeps an answer from deciding its own verdict inside
that process, by an object that equals everything, say: evaluated text may consist of literals, arithmetic, and the
functions of a mathematical expression. Anything else is refused before it runs, and counted as a violation.
"""

from __future__ import annotations

import importlib
import opcode
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from types import CodeType, FrameType
from typing import Any

__all__ = ["AnswerIsCode", "no_programs"]

# Modules that write code of their own, never from a text: when a class is defined, or for a number of variables.
WRITE_CODE = ("dataclasses", "collections", "enum", "typing", "functools", "sympy.polys.monomials")
PLAIN = frozenset(("set", "frozenset", "dict", "list", "tuple", "int", "float", "str", "bool", "range"))
EXPRESSIONS = frozenset(
    (
        *("Symbol", "Integer", "Float", "Rational", "Function", "Add", "Mul", "Pow", "Mod", "Abs", "Max", "Min"),
        *("Eq", "Ne", "Lt", "Le", "Gt", "Ge", "And", "Or", "Not", "true", "false"),
        *("Interval", "Union", "FiniteSet", "Matrix", "Tuple"),
        *("Derivative", "Integral", "Sum", "Product", "Limit"),
        *("pi", "E", "I", "oo", "zoo", "nan", "EulerGamma", "GoldenRatio"),
        *("sqrt", "cbrt", "root", "factorial", "factorial2", "binomial"),
    )
)
# Instructions whose effect would outlast the evaluation: they bind, change or delete something, or import.
LASTING = frozenset(
    opcode.opmap[name]
    for name in (
        *("STORE_NAME", "STORE_GLOBAL", "STORE_ATTR", "STORE_SUBSCR", "STORE_DEREF", "IMPORT_NAME", "IMPORT_FROM"),
        *("DELETE_NAME", "DELETE_GLOBAL", "DELETE_ATTR", "DELETE_SUBSCR"),
    )
)


class AnswerIsCode(Exception):
    """An answer that a scorer was about to run as a program."""


class _Guard:
    def __init__(self, functions: frozenset[str]) -> None:
        self.active, self.refused, self.functions = False, "", functions

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.active and event == "exec" and isinstance(arguments[0], CodeType):
            forbidden = self.forbidden(arguments[0], sys._getframe(1))
            if forbidden:
                self.refused = self.refused or forbidden
                raise AnswerIsCode(_sentence(forbidden))

    def forbidden(self, code: CodeType, caller: FrameType) -> str:
        """What this code does that an expression may not; empty: nothing."""
        module = str(caller.f_globals.get("__name__", ""))
        if code.co_filename.startswith(("<frozen", "/")) or module in WRITE_CODE:
            return ""  # a module that is being imported, or code that no answer has a part in
        allowed = PLAIN
        if module.startswith("sympy."):
            if code.co_names == ("sympy",):
                return ""  # its parser's own `from sympy import *`
            allowed = self.functions | frozenset(caller.f_locals.get("local_dict") or ())
        for name in code.co_names:
            if name not in allowed:
                return name
        if any(isinstance(constant, CodeType) for constant in code.co_consts):
            return "a function"
        return "an assignment" if LASTING.intersection(code.co_code[::2]) else ""


def _sentence(forbidden: str) -> str:
    return f"the answer is a program: it uses {forbidden[:40]!r}"


@cache
def _installed() -> _Guard:
    """The guard of this process. An audit hook cannot be removed, so there is one for good."""
    guard = _Guard(EXPRESSIONS | frozenset(importlib.import_module("sympy.functions").__all__))
    sys.addaudithook(guard)
    return guard


@contextmanager
def no_programs() -> Iterator[None]:
    """Refuse to evaluate text that is more than an expression. Where one was tried, AnswerIsCode is raised in the end,
    whatever the scorer has made of it."""
    guard = _installed()
    guard.active, guard.refused = True, ""
    try:
        yield
    finally:
        guard.active = False
        if guard.refused:
            raise AnswerIsCode(_sentence(guard.refused))
