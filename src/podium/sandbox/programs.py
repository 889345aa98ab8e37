"""Programs that a model has written, run on inputs and tested by assertions.

Outputs go back as JSON text to the caller, who alone knows what is expected and compares. Assertions have to run in the
same process as the program that they test. They use a namespace with builtins that the program cannot have changed, and
see plain values only, so the usual tricks fail. A program that changes or inspects the interpreter can still say
that it has passed.
"""

from __future__ import annotations

import builtins
import json
import random
import sys
from collections.abc import Callable, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from time import process_time
from typing import Any

from podium.core.printable import error_text

__all__ = ["MODULES", "own_share", "run_program"]

# What programs often import: loaded before they run, so that an import costs nothing.
MODULES = (
    *("math", "cmath", "re", "collections", "itertools", "functools", "operator", "heapq", "bisect", "random"),
    *("string", "json", "datetime", "typing", "fractions", "decimal", "statistics", "copy", "dataclasses", "enum"),
)
ATOMS = (int, float, complex, str, bytes, bool, type(None), range, date, datetime, time, timedelta, Decimal, Fraction)
CONTAINERS = (list, tuple, set, frozenset)


def run_program(
    source: str, name: str, inputs: Sequence[Sequence[Any]], setup: str = "", assertions: Sequence[str] = ()
) -> dict[str, Any]:
    """What the function of this name returns for each list of arguments, and which assertions hold.

    `problem` is empty, or says why there is no such function: syntax, error or missing, with a `detail`. Then
    `outputs` has for each input [JSON, ""] or ["", error], and `assertions` for each assertion "", "failed" or an
    error. In an assertion the function is known by its name and as `candidate`; one that defines `check` is called.
    """
    pristine_builtins = dict(vars(builtins))  # before the program can change them
    random.seed(0)  # the same program gives the same outputs
    try:
        code = compile(source, "<program>", "exec")
    except MemoryError:
        raise
    except (SyntaxError, ValueError, OverflowError, RecursionError) as error:
        return {"problem": "syntax", "detail": error_text(error)}
    namespace: dict[str, Any] = {"__name__": "program"}
    try:
        exec(code, namespace)
    except MemoryError:
        raise
    except BaseException as error:
        return {"problem": "error", "detail": error_text(error)}
    function = namespace.get(name)
    if not callable(function):
        return {"problem": "missing", "detail": f"there is no function {name}"}
    outputs = [_output(function, arguments) for arguments in inputs]
    results = _run_assertions(function, name, setup, assertions, pristine_builtins) if assertions else []
    return {"problem": "", "outputs": outputs, "assertions": results}


def own_share(source: str, name: str, inputs: Sequence[Sequence[Any]]) -> float:
    """The share of the processor time that a program spends in code of its own, and not in functions that Python brings
    along: low for one that leaves the work to them. 0 for a program that fails."""
    random.seed(0)
    namespace: dict[str, Any] = {"__name__": "program"}
    began: list[float] = []  # calls of functions of Python that are under way
    spent = 0.0
    now = process_time

    def watch(frame: Any, event: str, function: Any) -> None:
        nonlocal spent
        if event == "c_call":
            began.append(now())
        elif event in ("c_return", "c_exception") and began:
            start = began.pop()
            if not began:  # one inside another counts once
                spent += now() - start

    try:
        exec(compile(source, "<program>", "exec"), namespace)
        function = namespace[name]
        start = now()
        sys.setprofile(watch)
        try:
            for arguments in inputs:
                function(*arguments)
        finally:
            sys.setprofile(None)
            total = now() - start
    except MemoryError:
        raise
    except BaseException:
        return 0.0
    return max(1.0 - spent / total, 0.0) if total > 0 else 1.0


def _output(function: Callable[..., Any], arguments: Sequence[Any]) -> tuple[str, str]:
    try:
        return json.dumps(function(*arguments)), ""
    except MemoryError:
        raise
    except BaseException as error:  # SystemExit too
        return "", error_text(error)


def _run_assertions(
    function: Callable[..., Any], name: str, setup: str, assertions: Sequence[str], pristine_builtins: dict[str, Any]
) -> list[str]:
    sys.settrace(None)
    sys.setprofile(None)

    def tested(*arguments: Any, **named: Any) -> Any:
        return _plain_value(function(*arguments, **named))

    namespace: dict[str, Any] = {"__builtins__": pristine_builtins, "__name__": "tests"}
    exec(compile(setup, "<setup>", "exec"), namespace)
    namespace |= {name: tested, "candidate": tested}
    results = []
    for text in assertions:
        space = dict(namespace)
        try:
            exec(compile(text, "<test>", "exec"), space)
            if "check" in space and "check" not in namespace:
                space["check"](tested)
            results.append("")
        except AssertionError:
            results.append("failed")
        except MemoryError:
            raise
        except BaseException as error:
            results.append(error_text(error))
    return results


def _plain_value(value: Any) -> Any:
    """The value without types of the program's own, whose comparisons could say anything."""
    kind = type(value)
    if kind in ATOMS:
        return value
    for container in CONTAINERS:
        if issubclass(kind, container):
            return container([_plain_value(item) for item in container.__iter__(value)])
    if issubclass(kind, dict):
        return {_plain_value(key): _plain_value(item) for key, item in dict.items(value)}
    raise TypeError(f"it returned a {kind.__name__}, which is no plain value")
