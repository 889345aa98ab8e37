"""Tool use: arithmetic over a table that only tools can read, with calls in JSON and results as observations."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, NamedTuple

from podium.core.errors import within
from podium.protocols.answer_text import ANSWER_MARK
from podium.protocols.world import Episode, Feedback, Task
from podium.worlds.puzzle import Draft, Slip
from podium.worlds.quest import Quest, QuestStep

__all__ = ["Call", "Tools", "calls_in"]

Call = dict[str, Any]  # name, and arguments by name
THINGS = ("apple", "bread", "fish", "book", "lamp", "box", "key", "cup")
COLUMNS = ("price", "count")
SIGNS = {"add": "plus", "subtract": "minus", "multiply": "times"}
LOOK = "look"
SHAPES = {LOOK: ("row", "column"), **dict.fromkeys(SIGNS, ("a", "b"))}  # the tools and their arguments
LARGEST = 10**9
LONGEST_CALL = 200  # characters of a call that are read
MOST_CALLS = 8  # in a turn
CALL = "call:"
DOWN = "error: try again"
PROFILED = (
    *("turn.completed", "turn.correct", "turn.speedup", "turn.coverage"),
    *("rollout.parses", "rollout.interface_matches", "rollout.passed"),
)


def calls_in(text: str) -> list[Call | str]:
    """The calls of a text, one per line; for a malformed one, an error message."""
    lines = [line.strip() for line in text.splitlines()]
    return [_read(line[len(CALL) :]) for line in lines if line[: len(CALL)].casefold() == CALL][:MOST_CALLS]


def _read(written: str) -> Call | str:
    try:
        call = json.loads(written) if len(written) <= LONGEST_CALL else None
    except ValueError:
        call = None
    if not isinstance(call, dict) or not isinstance(call.get("name"), str):
        return 'error: say call: {"name": ..., "arguments": {...}}'
    arguments = call.get("arguments", {})
    if not isinstance(arguments, dict):
        return "error: arguments must be {...}"
    return {"name": call["name"], "arguments": arguments}


class TableTerm(NamedTuple):
    """A number or a cell of the table, and the tool that combines it with the total so far."""

    tool: str
    value: int | tuple[str, str]  # row and column

    def __str__(self) -> str:
        value = f"{self.value[1]} of {self.value[0]}" if isinstance(self.value, tuple) else str(self.value)
        return f"{SIGNS[self.tool]} {value}" if self.tool else value


class Tools(Quest):
    """`price of apple times 3 plus count of fish`, from left to right; higher levels have more terms.

    `call: {"name": "look", "arguments": {"row": "apple", "column": "price"}}` reads the table, and `add`, `subtract`
    and `multiply` of a and b compute. A turn may make several calls. `turn.calls` holds the well-formed ones,
    `rollout.reference_calls` those of a solution.

    With `profile` the calls are profiled like a program: whether all of them parse (`rollout.parses`) and name a tool
    with its arguments (`rollout.interface_matches`), the share of a solution's calls that were made (`rollout.passed`);
    and in the turn of a right answer how many times fewer calls it took than the solution (`turn.speedup`), and how
    much of the solution it rests on (`turn.coverage`, low for a guess).
    """

    name = "tools"
    summary = "arithmetic over a table that only tools can read"
    levels = (1, 2, 3, 4)
    styles = ("short", "long", "parallel")
    provides = (
        *Quest.provides,
        *("turn.calls", "turn.errors", "turn.answer", "rollout.reference_calls"),
    )
    blank = {**Quest.blank, "calls": (), "errors": 0.0, "answer": ""}
    max_tokens = 128
    down: float = 0.0  # the probability that a tool call fails
    profile: bool = False  # whether calls are profiled

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, "down", 0, 1)
        if self.profile:
            object.__setattr__(self, "provides", (*self.provides, *PROFILED))

    def explain(self) -> str:
        return (
            'Read the table by `call: {"name": "look", "arguments": {"row": "apple", "column": "price"}}`, compute by '
            '`call: {"name": "add", "arguments": {"a": 3, "b": 4}}` (or subtract, multiply), from left to right. '
            f"At the end write `{ANSWER_MARK}` and the number."
        )

    def draft(self, rng: Random) -> Draft:
        table = {thing: {column: rng.randint(2, 19) for column in COLUMNS} for thing in rng.sample(THINGS, 4)}
        while True:
            terms = [TableTerm("", _cell(table, rng))]
            if self.level % 2 == 0:
                terms.append(TableTerm(rng.choice(list(SIGNS)), rng.randint(2, 9)))
            if self.level > 2:
                terms.append(TableTerm(rng.choice(("add", "subtract")), _cell(table, rng)))
            calls, answer = _computed(table, terms)
            if answer >= 0:
                break
        question = " ".join(map(str, terms))
        data = {"table": table, "terms": terms, "answer": str(answer)}
        references = {"reference_calls": calls, "reference_answer": str(answer)}
        return Draft(f"tools: {question}", question, {**data, **references})

    def reset(self, task: Task, seed: int = 0) -> Episode:
        return _Desk(self, task, seed)

    def demonstrate(self, task: Task, style: str = "short", seed: int = 0) -> tuple[str, ...]:
        """The turns of a solution for the episode with this seed: a turn is repeated if a tool fails in it."""
        planned, desk = list(self.attempt(task, style, seed)), self.reset(task, seed)
        turns: list[str] = []
        while planned and len(turns) < self.max_turns:
            turns.append(planned[0])
            if DOWN not in desk.act(planned[0]).observation:
                planned.pop(0)
        return tuple(turns)

    def write(self, task: Task, style: str, rng: Random, slip: Slip) -> tuple[str, ...]:
        calls, total = _computed(task.data["table"], task.data["terms"], lambda: rng.randint(1, 9) if slip() else 0)
        if style == "parallel":  # all cells are read in the first turn
            calls = sorted(calls, key=lambda call: call["name"] != LOOK)
        lines = [f"{CALL} {json.dumps(call)}" for call in calls]
        if style == "long":
            lines = [f"next {_aim(call)}\n{line}" for call, line in zip(calls, lines, strict=True)]
        if style == "parallel":
            looks = sum(call["name"] == LOOK for call in calls)
            lines = ["\n".join(lines[:looks]), *lines[looks:]]
        return *lines, f"{ANSWER_MARK} {total}"


class _Desk(QuestStep):
    verbs = ("call",)

    def __init__(self, world: Tools, task: Task, seed: int) -> None:
        super().__init__(world, task)
        self.chance = Random(f"{task.key}/{seed}")
        self.down = world.down
        table = task.data["table"]
        self.cells = {(row, column): value for row, cells in table.items() for column, value in cells.items()}
        self.tools, self.made, self.parses, self.known = world, 0, True, True
        self.done: list[str] = []  # calls and their results

    def do(self, verb: str, rest: str, text: str) -> Feedback:
        calls = calls_in(text)
        results = [call if isinstance(call, str) else self._run(call) for call in calls]
        errors = sum(result.startswith("error") for result in results)
        self.made += len(calls)
        self.parses = self.parses and not any(isinstance(call, str) for call in calls)
        self.known = self.known and not any(r.startswith("error") and r != DOWN for r in results)
        self.recap = "\n".join(self.done)
        formed = tuple(call for call in calls if isinstance(call, dict))
        self.done += [
            f"{_aim(call)}: {result}"
            for call, result in zip(calls, results, strict=True)
            if isinstance(call, dict) and not result.startswith("error")
        ]
        return self.say("\n".join(results), calls=formed, errors=float(errors), valid=not errors)

    def _run(self, call: Call) -> str:
        name, arguments = call["name"], call["arguments"]
        if name not in SHAPES:
            return f"error: no tool {name[:20]}; there are {' '.join(SHAPES)}"
        if set(arguments) != set(SHAPES[name]):
            return f"error: {name} needs {' and '.join(SHAPES[name])}"
        if self.down and self.chance.random() < self.down:
            return DOWN
        a, b = (arguments[key] for key in SHAPES[name])
        if name == LOOK:
            value = self.cells.get((str(a), str(b)))
            return "error: no such row and column" if value is None else str(value)
        if not all(isinstance(x, int) and not isinstance(x, bool) and abs(x) <= LARGEST for x in (a, b)):
            return "error: a and b must be whole numbers"
        return str(_apply(name, a, b))

    def reached(self) -> str:
        return ";".join(self.done)

    def answer(self, answer: str, text: str) -> Feedback:
        if not (self.tools.profile and self.right(answer)):
            return super().answer(answer, text)
        self.ended = True
        profile = {"speedup": self._solution_calls() / max(self.made, 1), "coverage": self._passed()}
        return self.say("", done=True, reward=1.0, correct=True, answer=answer, **profile)

    def columns(self) -> dict[str, Any]:
        if not self.tools.profile:
            return {}
        profile = {"completed": self.parses and self.known, "speedup": 0.0, "coverage": 0.0}
        return profile | {"parses": self.parses, "interface_matches": self.known, "passed": self._passed()}

    def _solution_calls(self) -> int:
        return len({_aim(call) for call in self.task.data["reference_calls"]})

    def _passed(self) -> float:
        """The share of a solution's calls that were made."""
        return 1 - self.missing() / self._solution_calls()

    def missing(self) -> int:
        made = {entry.partition(": ")[0] for entry in self.done}
        return len({_aim(call) for call in self.task.data["reference_calls"]} - made)

    def right(self, answer: str) -> bool:
        number = re.fullmatch(r"[+-]?[0-9]{1,12}", answer)
        return number is not None and int(answer) == int(self.task.data["answer"])


def _cell(table: Mapping[str, Any], rng: Random) -> tuple[str, str]:
    return rng.choice(list(table)), rng.choice(COLUMNS)


def _apply(name: str, a: int, b: int) -> int:
    return a + b if name == "add" else a - b if name == "subtract" else a * b


def _computed(
    table: Mapping[str, Any], terms: list[TableTerm], error: Callable[[], int] = lambda: 0
) -> tuple[list[Call], int]:
    """The calls of a solution and its result; `error()` is added to the result of each call."""
    calls: list[Call] = []
    total = 0
    for term in terms:
        value = term.value
        if isinstance(value, tuple):
            row, column = value
            calls.append({"name": LOOK, "arguments": {"row": row, "column": column}})
            value = table[row][column] + error()
        if term.tool:
            calls.append({"name": term.tool, "arguments": {"a": total, "b": value}})
            value = _apply(term.tool, total, value) + error()
        total = value
    return calls, total


def _aim(call: Call) -> str:
    """A call in words."""
    arguments = call["arguments"]
    if call["name"] == LOOK:
        return f"{arguments['column']} of {arguments['row']}"
    return f"{arguments['a']} {SIGNS[call['name']]} {arguments['b']}"
