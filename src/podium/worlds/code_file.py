"""Your own programming problems, one JSON object per line."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from podium.core.errors import PodiumError, nearest, within
from podium.protocols.world import Task
from podium.store.json_lines import objects, text_of
from podium.worlds.code import CODE_FORMAT
from podium.worlds.code_tests import CodeTest, tests_in
from podium.worlds.file_rows import row_at, rows_by_split
from podium.worlds.judge import Judged
from podium.worlds.puzzle import task_key

__all__ = ["CodeFile"]

PROMPTS = ("prompt", "question", "problem", "text", "instruction", "description")
FUNCTIONS = ("function", "entry_point", "function_name", "fn_name")
TESTS = ("tests", "test_list", "test_cases", "test", "assertions", "asserts")
REFERENCES = ("reference", "canonical_solution", "reference_solution", "solution", "code")
SETUPS = ("setup", "test_setup_code", "test_imports")
SECONDS = ("seconds", "time_limit", "timeout")
DOMAINS = ("domain", "data_source", "category", "subject")
LONGEST_S = 60  # seconds of processor time


@dataclass(frozen=True)
class CodeRow:
    """A problem of a file."""

    line: int
    prompt: str
    function: str
    tests: list[CodeTest]  # arguments and what is expected
    assertions: list[str]  # tests that are programs
    setup: str
    reference: str
    seconds: float | None
    domain: str

    @property
    def prefix(self) -> str:
        """The head of the function, where the prompt is one, as in HumanEval."""
        return self.prompt if re.search(rf"^def {self.function}\(", self.prompt, re.MULTILINE) else ""

    def shown(self) -> str:
        """A test, for a prompt that does not say what the function is called."""
        if re.search(rf"\b{self.function}\b", self.prompt):
            return ""
        if not self.tests:
            return f"\nIt is tested like this: {self.assertions[0].strip()}"
        arguments, expected = self.tests[0]
        return f"\nFor example: {self.function}({', '.join(map(repr, arguments))}) == {expected!r}"


class CodeFile(Judged):
    """Problems from a file: a prompt, the name of a function, and its tests.

    A test is an object with `args` and `expected`, or an assertion. Assertions of the form `f(…) == …`, with values
    that JSON can hold, are read as such objects; all others run beside the program that they test. The formats of MBPP
    and HumanEval are recognised. Held-out tasks come from `test_file`, or are a share of the rows, chosen by a hash of
    the prompt.
    """

    name = "code"
    summary = "programming problems from a file of JSON lines"
    max_tokens = 512
    instructions: bool = True
    file: str = ""
    test_file: str = ""  # where the held-out tasks are; empty: a share of `file`
    held_out: float = 0.1  # the share of rows that is held out
    prompt_field: str = ""  # empty: prompt, question, problem, …
    function_field: str = ""  # empty: function, entry_point, …; else the function that the first assertion calls
    tests_field: str = ""  # empty: tests, test_list, test, …
    reference_field: str = ""  # empty: reference, canonical_solution, … if a row has one

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, "held_out", 0, 1)
        if not self.file:
            raise PodiumError("code: needs a file: code:path/to/problems.jsonl, or the world code without a colon.")

    @cached_property
    def rows(self) -> Mapping[str, Sequence[CodeRow]]:
        """The rows of each split."""
        return rows_by_split("code", self._read, self.file, self.test_file, self.held_out)

    def size(self, split: str = "train") -> int:
        task_key(self.name, split, 0)
        return len(self.rows[split])

    def task(self, index: int, split: str = "train") -> Task:
        key = task_key(f"{self.name}-{Path(self.file).stem}", split, index)
        row = row_at(self.rows, index, split, self.file, self.held_out)
        prompt = row.prompt + row.shown()
        if self.instructions:
            prompt = f"{prompt}\nWrite the Python function `{row.function}`. {CODE_FORMAT}"
        data: dict[str, Any] = {"function": row.function, "tests": row.tests, "assertions": row.assertions}
        data |= {"setup": row.setup, "reference": row.reference, "seconds": row.seconds, "prefix": row.prefix}
        return Task(key, prompt, domain=row.domain, data={**data, "line": row.line})

    def solve(self, task: Task, style: str = "short", seed: int = 0) -> str:
        """The reference of the row; there is only one style."""
        if not task.data["reference"]:
            raise PodiumError(f"{self.file}, line {task.data['line']} has no reference solution.")
        return str(task.data["reference"])

    def reference(self, task: Task) -> str:
        return self.solve(task)

    def _read(self, file: str) -> list[CodeRow]:
        return [self._row(data, f"{file}, line {line}", line) for line, data in objects(file)]

    def _row(self, data: Mapping[str, Any], where: str, line: int) -> CodeRow:
        prompt = text_of(data, self.prompt_field, PROMPTS, "prompt_field", where)
        name = _optional(data, self.function_field, FUNCTIONS, "function_field", where)
        function, tests, assertions = tests_in(_field(data, self.tests_field, TESTS, where), name, where)
        setup = next((data[name] for name in SETUPS if data.get(name)), "")
        setup = "\n".join(map(str, setup)) if isinstance(setup, list) else str(setup)
        try:
            ast.parse(setup)
        except SyntaxError as error:
            raise PodiumError(f"{where}: the setup is not Python ({error.msg}).") from error
        reference = _optional(data, self.reference_field, REFERENCES, "reference_field", where)
        seconds = next((data[name] for name in SECONDS if data.get(name) is not None), None)
        if seconds is not None and not _is_time(seconds):
            raise PodiumError(f"{where}: the time limit is {seconds!r}; seconds up to {LONGEST_S} are needed.")
        domain = next((data[name] for name in DOMAINS if isinstance(data.get(name), str)), "")
        return CodeRow(line, prompt, function, tests, assertions, setup, reference, seconds, domain)


def _field(data: Mapping[str, Any], field: str, usual: tuple[str, ...], where: str) -> Any:
    if field and field not in data:
        raise PodiumError(f"{where}: the row has no field {field!r} (tests_field). {nearest(field, data)}")
    name = field or next((name for name in usual if name in data), "")
    if not name:
        has = ", ".join(data) or "no fields"
        raise PodiumError(f"{where}: none of the fields {', '.join(usual)} is there (it has {has}). Set tests_field.")
    return data[name]


def _optional(data: Mapping[str, Any], field: str, usual: tuple[str, ...], setting: str, where: str) -> str:
    """The text of a field that a row need not have, unless it is asked for by name."""
    if not field and not any(data.get(name) is not None for name in usual):
        return ""
    return text_of(data, field, tuple(name for name in usual if data.get(name) is not None), setting, where)


def _is_time(value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and math.isfinite(value) and 0 < value <= LONGEST_S
