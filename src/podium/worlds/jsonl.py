"""Your own questions and answers, one JSON object per line."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from podium.core.errors import PodiumError, one_of, within
from podium.protocols.answer_forms import Stated, find_answer
from podium.protocols.answer_text import ANSWER_MARK, boxed
from podium.protocols.pieces import joined
from podium.protocols.world import Criterion, Task
from podium.sandbox import unconfinable
from podium.sandbox.graders import MATH
from podium.store.json_lines import objects, text_of
from podium.worlds.file_rows import row_at, rows_by_split
from podium.worlds.graded import FORMAT, Graded, Verdict, verdict_of
from podium.worlds.grading import Equal, compare_answers, unstated_answer
from podium.worlds.puzzle import task_key

__all__ = ["Jsonl"]

PROMPTS = ("question", "problem", "prompt", "input", "query")
ANSWERS = ("answer", "final_answer", "expected_answer", "target", "solution")
DOMAINS = ("domain", "data_source", "category", "subject")
LONGEST = 300  # characters of an answer that are graded


@dataclass(frozen=True)
class JsonlRow:
    line: int
    prompt: str
    answer: str
    solution: str
    hints: Mapping[str, list[str]]
    criteria: Sequence[tuple[str, float]]
    domain: str
    columns: Mapping[str, Any]  # all of the row, for reward functions
    choices: Mapping[str, str] = field(default_factory=dict)  # the text of each choice by its letter


class Jsonl(Graded):
    """Questions from a file.

    Held-out tasks come from `test_file`, or are a share of the rows, chosen by a hash of the question.

    GSM8K's format is recognised: reasoning, then `#### 72`. An answer inside `\\boxed{…}` is extracted.
    """

    name = "jsonl"
    summary = "questions and answers from a file of JSON lines"
    uses_sandbox = True
    max_tokens = 256
    act_limit_s = 60.0  # the first verdict waits for the sandbox to start; each has a limit of its own
    provides = (*Graded.provides, "task.solution")
    instructions: bool = True
    file: str = ""
    test_file: str = ""  # where the held-out tasks are; empty: a share of `file`
    held_out: float = 0.1  # the share of rows that is held out
    prompt_field: str = ""  # empty: question, problem, prompt, …
    answer_field: str = ""  # empty: answer, final_answer, …
    solution_field: str = ""  # empty: GSM8K's reasoning if the answer contains it, else none
    hints_field: str = ""  # an object of lists, such as {"knowledge": ["…"], "solution": ["…", "…"]}; empty: none
    criteria_field: str = ""  # a list of texts, or of objects such as {"text": "…", "points": 2}; empty: no rubrics
    domain_field: str = ""  # empty: domain, data_source, … if a row has one
    grader: str = "auto"  # math (math-verify) or exact; auto: math if it is installed

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, "held_out", 0, 1)
        one_of(self, "grader", ("auto", "math", "exact"))
        if not self.file:
            raise PodiumError("jsonl needs a file: jsonl:path/to/questions.jsonl.")
        if self.criteria_field:
            object.__setattr__(self, "provides", (*type(self).provides, "task.criteria"))
        if self.grader == "math" and not _has_math_verify():
            raise PodiumError("grader = 'math' needs math-verify: pip install 'podium-rl[math]'.")

    @cached_property
    def rows(self) -> Mapping[str, Sequence[JsonlRow]]:
        """The rows of each split."""
        self.check_grader()
        return rows_by_split("jsonl", self._read, self.file, self.test_file, self.held_out)

    def check_grader(self) -> None:
        """Refuse math-verify on a system that cannot confine it."""
        if self._compares_mathematics and (reason := unconfinable()):
            raise PodiumError(
                f"math-verify cannot be used on this system: it computes with what a model writes, and could not be "
                f"confined: {reason}. Set grader = 'exact', or use Linux on x86-64 or 64-bit ARM."
            )

    def size(self, split: str = "train") -> int:
        task_key(self.name, split, 0)
        return len(self.rows[split])

    def task(self, index: int, split: str = "train") -> Task:
        key = task_key(f"{self.name}-{Path(self.file).stem}", split, index)
        row = row_at(self.rows, index, split, self.file, self.held_out)
        prompt = joined("\n", (row.prompt, FORMAT)) if self.instructions else row.prompt
        data = {"answer": row.answer, "solution": row.solution, "hints": row.hints, "line": row.line}
        if self.criteria_field:
            data["criteria"] = row.criteria
        return Task(key, prompt, domain=row.domain, data=data)

    def read(self, text: str) -> str | None:
        stated = find_answer(text)
        return None if isinstance(stated, str) else stated.answer

    def decide(self, task: Task, text: str) -> tuple[Verdict, bool]:
        answer = self.read(text)
        if answer is None:
            unstated = unstated_answer(task.data["answer"], text)
            if not isinstance(unstated, Stated):
                return Verdict(False, why=unstated), False
            answer = unstated.answer
        return self.verdict(task, answer), True

    def verdict(self, task: Task, answer: str) -> Verdict:
        grade = compare_answers(task.data["answer"], answer, self.equal, task.data.get("choices"))
        return Verdict(grade.correct, grade.answer, why=grade.why)

    @property
    def equal(self) -> Equal | None:
        """What compares expressions that the grader itself cannot; None: nothing."""
        return _equal if self._compares_mathematics else None

    @property
    def _compares_mathematics(self) -> bool:
        return self.grader == "math" or (self.grader == "auto" and _has_math_verify())

    def close(self) -> None:
        super().close()
        MATH.close()

    def solve(self, task: Task, style: str = "short", seed: int = 0) -> str:
        """The solution of the row; there is only one style."""
        return f"{task.data['solution']}\n{ANSWER_MARK} {task.data['answer']}".lstrip()

    def criteria(self, task: Task) -> tuple[Criterion, ...]:
        """The rubric of the row."""
        return tuple(Criterion(text, points) for text, points in task.data["criteria"])

    def met(self, task: Task, text: str) -> tuple[bool, ...]:
        raise PodiumError(
            f"{self.file} has criteria, but no rule says which of them an answer meets: name a model as judge, for "
            "example with --set judge=PATH."
        )

    def _read(self, file: str) -> list[JsonlRow]:
        return [self._row(data, f"{file}, line {line}", line) for line, data in objects(file)]

    def _row(self, data: Mapping[str, Any], where: str, line: int) -> JsonlRow:
        prompt = text_of(data, self.prompt_field, PROMPTS, "prompt_field", where)
        answer = text_of(data, self.answer_field, ANSWERS, "answer_field", where)
        domain = next((data[name] for name in DOMAINS if isinstance(data.get(name), str)), "")
        if self.domain_field:
            domain = text_of(data, self.domain_field, (), "domain_field", where)
        return self._parsed(JsonlRow(line, prompt, answer, "", {}, (), domain, data), where)

    def _parsed(self, row: JsonlRow, where: str) -> JsonlRow:
        """A row with its answer apart from its solution, and with its hints and criteria."""
        data, answer = row.columns, row.answer
        solution = text_of(data, self.solution_field, (), "solution_field", where) if self.solution_field else ""
        if "####" in answer:
            reasoning, _, answer = answer.rpartition("####")
            solution = solution or reasoning
        answer = (boxed(answer) or answer).strip()
        if not answer:
            raise PodiumError(f"{where}: the answer is empty.")
        hints = self._hints(data, where) if self.hints_field else {}
        criteria = self._criteria(data, where) if self.criteria_field else ()
        solution = _without_calculations(solution).strip()
        return replace(row, answer=answer, solution=solution, hints=hints, criteria=criteria)

    def _hints(self, data: Mapping[str, Any], where: str) -> Mapping[str, list[str]]:
        hints = data.get(self.hints_field, {})
        if not isinstance(hints, dict) or not all(isinstance(pieces, list) for pieces in hints.values()):
            raise PodiumError(
                f"{where}: the hints in {self.hints_field!r} must be an object of lists, a list of texts for each tier."
            )
        return {tier: [str(piece) for piece in pieces] for tier, pieces in hints.items()}

    def _criteria(self, data: Mapping[str, Any], where: str) -> list[tuple[str, float]]:
        rubric: Any = data.get(self.criteria_field, [])
        listed = rubric if isinstance(rubric, list) else [None]
        pairs = [(c, 1.0) if isinstance(c, str) else _criterion(c) for c in listed]
        if not all(isinstance(text, str) and type(points) in (int, float) for text, points in pairs):
            raise PodiumError(
                f"{where}: the criteria in {self.criteria_field!r} must be a list of texts, or of objects with a "
                "`text` and a number of `points`."
            )
        return [(text, float(points)) for text, points in pairs]


def _criterion(data: Any) -> tuple[Any, Any]:
    """The text and the points of a criterion, whatever they are."""
    return (data.get("text"), data.get("points", 1.0)) if isinstance(data, dict) else (None, None)


def _without_calculations(solution: str) -> str:
    """GSM8K's reasoning without its annotations, `<<6*7=42>>`, each of which stands on one line.

    What follows the last `>>` of a line is left aside: there every `<<` would be searched to the end of the line.
    """
    lines = (line.rpartition(">>") for line in solution.split("\n"))
    return "\n".join(re.sub(r"<<.*?>>", "", before + mark) + after for before, mark, after in lines)


def _equal(gold: str, answer: str) -> bool:
    """Whether math-verify, in the sandbox, considers two expressions equal."""
    return bool(verdict_of(MATH.call(gold[:LONGEST], answer[:LONGEST])))


def _has_math_verify() -> bool:
    return importlib.util.find_spec("math_verify") is not None
