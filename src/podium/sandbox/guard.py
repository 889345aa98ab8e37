"""A guard against answers that are programs: scorers that evaluate an answer may compute with it, nothing more.

The process around a call is what keeps an attack in. The guard keeps an answer from deciding its own verdict inside
that process, by an object that equals everything, say: evaluated text may consist of literals, arithmetic, and the
functions of a mathematical expression. Anything else is refused before it runs, and counted as a violation.
"""

from __future__ import annotations

import importlib
import sys
from functools import cache
from types import CodeType, FrameType
from typing import Any

__all__ = ["AnswerIsCode", "guard_evaluation"]

# Modules of the standard library that write code of their own when a class is defined.
WRITE_CODE = ("dataclasses", "collections", "enum", "typing", "functools")
PLAIN = frozenset(("set", "frozenset", "dict", "list", "tuple", "int", "float", "str", "bool", "range"))
EXPRESSIONS = frozenset(
    "sympy Symbol Integer Float Rational Function Add Mul Pow Mod Abs Eq Ne Lt Le Gt Ge And Or Not Interval Union FiniteSet "
    "Matrix Tuple Derivative Integral Sum Product Limit pi E I oo zoo nan true false EulerGamma GoldenRatio Max Min "
    "sqrt cbrt root factorial factorial2 binomial".split()
)


class AnswerIsCode(Exception):
    """An answer that a scorer was about to run as a program."""


class _Guard:
    refused = ""  # the first name that an answer may not use
    names: frozenset[str] | None = None  # allowed in expressions of sympy, once it is needed

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "exec" and isinstance(arguments[0], CodeType):
            self.check(arguments[0], sys._getframe(1))

    def check(self, code: CodeType, caller: FrameType) -> None:
        module = caller.f_globals.get("__name__", "")
        if code.co_filename.startswith(("<frozen", "/")) or module.partition(".")[0] in WRITE_CODE:
            return  # a module that is being imported, or a class that is being defined
        allowed: frozenset[str] = PLAIN
        if module.startswith("sympy."):
            allowed = self.of_sympy() | frozenset(caller.f_locals.get("local_dict") or ())
        nested = any(isinstance(constant, CodeType) for constant in code.co_consts)
        forbidden = next((name for name in code.co_names if name not in allowed), "a function" if nested else "")
        if forbidden:
            self.refused = self.refused or forbidden
            raise AnswerIsCode(f"the answer is a program: it uses {forbidden[:40]!r}")

    def of_sympy(self) -> frozenset[str]:
        if self.names is None:
            self.names = EXPRESSIONS | frozenset(importlib.import_module("sympy.functions").__all__)
        return self.names


@cache
def guard_evaluation() -> _Guard:
    """Refuse, in this process and for good, to evaluate text that is more than an expression."""
    guard = _Guard()
    guard.of_sympy()
    sys.addaudithook(guard)
    return guard
