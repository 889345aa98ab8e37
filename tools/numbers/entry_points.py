"""The entry points of parts, memories and strategies, and the functions beside them that do their arithmetic."""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import pkgutil
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from podium.core.memory import Memory
from podium.core.part import Part

__all__ = ["NAMES", "SOURCE", "Subject", "entry_points", "helpers"]

SOURCE = Path(__file__).parents[2] / "src" / "podium"
PACKAGES = ("podium.parts", "podium.memories", "podium.strategies")
NAMES = ("__call__", "loss", "choose", "plan", "observe", "recall")
# What says of a part what it is, and changes no number: checked by the battery and by the checks of methods.
DESCRIPTIONS = ("__init__", "__post_init__", "__repr__", "__str__", "__eq__", "__hash__", "needs", "provides", "probes")


@dataclass(frozen=True)
class Subject:
    """A function of the library: `parts/advantage/normalize.py::Normalize.__call__`."""

    file: str  # below src/podium
    name: str  # its qualified name
    function: FunctionType
    entry: bool  # whether a run calls it, as opposed to a helper beside it

    def __str__(self) -> str:
        return f"{self.file}::{self.name}"


def entry_points() -> list[Subject]:
    """The methods that a run calls, those that only refuse (`raise NotImplementedError`) left out."""
    return [subject for subject in _subjects() if subject.entry]


def helpers() -> list[Subject]:
    """The other functions of the files that have an entry point, descriptions left out."""
    files = {subject.file for subject in entry_points()}
    return [subject for subject in _subjects() if not subject.entry and subject.file in files]


@functools.cache
def _subjects() -> tuple[Subject, ...]:
    found = []
    for module in _modules():
        file = str(Path(inspect.getfile(module)).relative_to(SOURCE))
        for owner, function in _functions(module):
            name = function.__name__
            entry = name in NAMES and owner is not None and issubclass(owner, (Part, Memory))
            if name in DESCRIPTIONS or _refuses(function):
                continue
            found.append(Subject(file, function.__qualname__, function, entry))
    return tuple(sorted(found, key=str))


def _modules() -> Iterator[ModuleType]:
    for package in PACKAGES:
        root = importlib.import_module(package)
        for info in pkgutil.walk_packages(root.__path__, f"{package}."):
            module = importlib.import_module(info.name)
            if not info.ispkg:
                yield module


def _functions(module: ModuleType) -> Iterator[tuple[type | None, FunctionType]]:
    """(class or None, function) for each one that the module defines."""
    for value in vars(module).values():
        if isinstance(value, FunctionType) and value.__module__ == module.__name__:
            yield None, value
        elif isinstance(value, type) and value.__module__ == module.__name__:
            for member in vars(value).values():
                function = _unwrapped(member)
                written = function is not None and function.__code__.co_filename == module.__file__
                if function is not None and written and function.__qualname__.startswith(f"{value.__name__}."):
                    yield value, function


def _unwrapped(member: Any) -> FunctionType | None:
    if isinstance(member, property):
        member = member.fget
    elif isinstance(member, (classmethod, staticmethod)):
        member = member.__func__
    elif isinstance(member, functools.cached_property):
        member = member.func
    return member if isinstance(member, FunctionType) else None


def _refuses(function: FunctionType) -> bool:
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    body = next(node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)).body
    rest = [s for s in body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
    return len(rest) == 1 and isinstance(rest[0], ast.Raise)
