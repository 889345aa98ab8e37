"""Evaluated answers may be expressions, not programs."""

from __future__ import annotations

import builtins
import sys

import pytest

from podium.sandbox.guard import AnswerIsCode, no_programs

sympy = pytest.importorskip("sympy")


@pytest.mark.parametrize("text", ["[1, 2]", "3 * (4 + 5)", "{'a': 1}", "set([1])", "-1.5e3", "'ab' * 2", "1 < 2"])
def test_literals_and_arithmetic_are_evaluated(text: str) -> None:
    with no_programs():
        value = eval(text)
    assert value == eval(text)


@pytest.mark.parametrize(
    "text", ["x**2 + sin(x)", "sqrt(2)*pi", "3!", "Integral(x, x)", "(x + 1)*(x - 1)", "exp(-x**2)/2", "log(x, 2)"]
)
def test_expressions_are_parsed(text: str) -> None:
    with no_programs():
        value = sympy.parse_expr(text).expand()
    assert value == sympy.parse_expr(text).expand()


PROGRAMS = [
    *("__import__('os')", "open('x')", "().__class__", "len([])", "(lambda: 1)()", "[x for x in (1,)].__class__"),
    *("(int := 5)", "print", "'{}'.format(1)", "f'{().__class__}'", "type('X', (), {})"),
]


@pytest.mark.parametrize("text", PROGRAMS)
def test_programs_are_refused_before_they_run(text: str) -> None:
    with pytest.raises(AnswerIsCode, match="the answer is a program"), no_programs():
        eval(text)


@pytest.mark.parametrize(
    "text", ["__import__('os')", "open('x')", "().__class__", "x.func", "(lambda: 1)()", "eval('1')"]
)
def test_programs_for_sympy_are_refused_before_they_run(text: str) -> None:
    for evaluate in (sympy.parse_expr, sympy.sympify):
        with pytest.raises(AnswerIsCode, match="the answer is a program"), no_programs():
            evaluate(text)


def test_a_scorer_that_catches_everything_does_not_hide_it() -> None:
    def scorer() -> float:
        try:
            return float(eval("__import__('os').getpid() * 0 + 1"))
        except BaseException:
            return 1.0

    with pytest.raises(AnswerIsCode), no_programs():
        scorer()


def test_a_text_inside_a_text_is_refused_too() -> None:
    for text in ("Integral(\"__import__('os')\", x)", "Sum(\"open('x')\", (x, 1, 2))"):
        with pytest.raises(AnswerIsCode), no_programs():
            sympy.parse_expr(text)


def test_lambdify_compiles_nothing() -> None:
    x = sympy.Symbol("x")
    with pytest.raises(AnswerIsCode), no_programs():
        sympy.lambdify(x, sympy.Function("__import__('os').getpid")(x))


def test_modules_can_be_imported_and_classes_defined() -> None:
    sys.modules.pop("this_is_no_module", None)
    with no_programs():
        import colorsys
        from collections import namedtuple
        from dataclasses import make_dataclass

        namedtuple("Point", "x y")
        make_dataclass("Made", ["a"])
    assert colorsys


def test_outside_the_guard_everything_is_evaluated() -> None:
    with pytest.raises(AnswerIsCode), no_programs():
        eval("print")
    with no_programs():  # and one refusal is not held against the next answer
        assert eval("1 + 1") == 2
    assert eval("print") is builtins.print
