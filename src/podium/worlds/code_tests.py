"""Tests of a programming problem as people write them: arguments with the expected result, or assertions."""

from __future__ import annotations

import ast
import builtins
import json
from collections.abc import Mapping
from typing import Any

from podium.core.errors import PodiumError

__all__ = ["CodeTest", "tests_in"]

CodeTest = tuple[list[Any], Any]  # arguments, and what the function is expected to return
ARGUMENTS = ("args", "arguments", "inputs", "input")
EXPECTED = ("expected", "output", "expected_output", "result")
CANDIDATE = "candidate"  # what HumanEval's tests call the function
SHAPE = '{"args": [2, 3], "expected": 5}, or an assertion such as "assert add(2, 3) == 5"'


def tests_in(field: Any, function: str, where: str) -> tuple[str, list[CodeTest], list[str]]:
    """The function that is tested, the tests by arguments, and the assertions that have to be run.

    Without a name, the function is what the first assertion calls.
    """
    items = [field] if isinstance(field, str) else field if isinstance(field, list) else [None]
    tests: list[CodeTest] = []
    texts: list[str] = []
    for number, item in enumerate(items, 1):
        if isinstance(item, str):
            texts.append(item)
        elif isinstance(item, Mapping):
            tests.append(_of_object(item, f"{where}, test {number}"))
        else:
            raise PodiumError(f"{where}: the tests must be a list, each of them {SHAPE}.")
    trees = [(text, _parsed(text, where)) for text in texts]
    function = function or next((name for _, tree in trees if (name := _called(tree))), "")
    if not function.isidentifier():
        problem = f"{function!r} is not the name of a function" if function else "no function to test is named"
        raise PodiumError(f"{where}: {problem}. Set function_field.")
    assertions = []
    for text, tree in trees:
        by_value = _values(tree, function)
        tests += by_value or []
        assertions += [] if by_value else [text]
    if not tests and not assertions:
        raise PodiumError(f"{where}: there are no tests. Each of them is {SHAPE}.")
    return function, tests, assertions


def _of_object(item: Mapping[str, Any], where: str) -> CodeTest:
    arguments = next((item[name] for name in ARGUMENTS if name in item), None)
    expected = next((name for name in EXPECTED if name in item), None)
    if not isinstance(arguments, list) or expected is None:
        raise PodiumError(f"{where}: a test is {SHAPE}; the arguments are a list.")
    return arguments, item[expected]


def _parsed(text: str, where: str) -> ast.Module:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise PodiumError(f"{where}: the test {text[:60]!r} is not Python ({error}).") from error


def _called(tree: ast.Module) -> str:
    """The function that the first assertion of a test calls first."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert):
            inside = (call.func for call in ast.walk(node) if isinstance(call, ast.Call))
            names = [name.id for name in inside if isinstance(name, ast.Name)]
            return next((name for name in names if name not in vars(builtins) and name != CANDIDATE), "")
    return ""


def _values(tree: ast.Module, function: str) -> list[CodeTest] | None:
    """A test as arguments and expected results, if it consists of nothing but assertions of the form `f(…) == …`."""
    body: list[ast.stmt] = tree.body
    defined = [node for node in body if isinstance(node, ast.FunctionDef)]
    if defined:  # HumanEval: def check(candidate), and what describes it
        others = [node for node in body if node is not defined[0]]
        if len(defined) > 1 or defined[0].name != "check" or not all(_is_harmless(node, function) for node in others):
            return None
        body = defined[0].body
    read = [_value(node, function) for node in body if not _is_harmless(node, function)]
    tests = [test for test in read if test is not None]
    return tests if tests and len(tests) == len(read) else None


def _is_harmless(node: ast.stmt, function: str) -> bool:
    """A description, or the call of HumanEval's check."""
    if isinstance(node, ast.Assign):
        return all(isinstance(target, ast.Name) and target.id == "METADATA" for target in node.targets)
    if isinstance(node, ast.Assert):
        return isinstance(node.test, ast.Constant) and bool(node.test.value)
    call = node.value if isinstance(node, ast.Expr) else None
    return isinstance(call, ast.Constant) or (call is not None and ast.unparse(call) == f"check({function})")


def _value(node: ast.stmt, function: str) -> CodeTest | None:
    """`assert f(2, 3) == 5`; None if it is anything else."""
    if not isinstance(node, ast.Assert) or not isinstance(node.test, ast.Compare):
        return None
    left, operators, rights = node.test.left, node.test.ops, node.test.comparators
    if len(rights) != 1 or not isinstance(operators[0], ast.Eq) or not isinstance(left, ast.Call) or left.keywords:
        return None
    if not isinstance(left.func, ast.Name) or left.func.id not in (function, CANDIDATE):
        return None
    try:
        arguments, expected = [ast.literal_eval(a) for a in left.args], ast.literal_eval(rights[0])
        if json.loads(json.dumps(arguments)) != arguments:  # tuples, say: a function may treat a list otherwise
            return None
        return arguments, json.loads(json.dumps(expected))
    except (ValueError, TypeError, RecursionError):
        return None
