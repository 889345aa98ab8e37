"""People's own programming problems."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from podium import worlds
from podium.core.errors import PodiumError
from podium.protocols.world import isolation_of
from podium.worlds import CodeFile, Feedback
from podium.worlds.isolated import is_isolated
from podium.worlds.names import names_code

ADD = {
    "prompt": "Write add(a, b), the sum.",
    "function": "add",
    "tests": [{"args": [2, 3], "expected": 5}, {"args": [0.1, 0.2], "expected": 0.3}],
    "reference": "def add(a, b):\n    return a + b",
}
MBPP = {
    "task_id": 2,
    "text": "Write a function to find the shared elements from the given two lists.",
    "code": "def similar(a, b):\n    return tuple(set(a) & set(b))",
    "test_setup_code": "import math",
    "test_list": [
        "assert set(similar((3, 4, 5), (5, 7, 4))) == set((4, 5))",
        "assert similar([1], [2]) == ()",
        "assert math.floor(similar([1.5], [1.5])[0]) == 1",
    ],
}
HUMANEVAL = {
    "task_id": "x/0",
    "prompt": 'from typing import List\n\n\ndef top(xs: List[int]) -> int:\n    """ The largest.\n    >>> top([1, 2])\n'
    '    2\n    """\n',
    "canonical_solution": "    return max(xs)\n",
    "entry_point": "top",
    "test": "METADATA = {'author': 'me'}\n\n\ndef check(candidate):\n    assert candidate([1, 2]) == 2\n"
    "    assert candidate([-3]) == -3\n",
}


@pytest.fixture
def files(tmp_path: Path) -> Iterator[Any]:
    made: list[CodeFile] = []

    def make(*rows: object, **settings: Any) -> CodeFile:
        file = tmp_path / "problems.jsonl"
        file.write_text("\n".join(json.dumps(row) for row in rows) + "\n")
        world = worlds.get(f"code:{file}", **{"held_out": 0, **settings})
        assert isinstance(world, CodeFile)
        made.append(world)
        return world

    yield make
    for world in made:
        world.close()


def graded(world: CodeFile, text: str, task: int = 0) -> Feedback:
    return world.grade(world.task(task), text)


def test_a_row_of_arguments_and_expected_results_is_a_task(files: Any) -> None:
    world = files(ADD)
    task = world.task(0)
    assert "Write add(a, b), the sum.\nWrite the Python function `add`." in task.prompt
    assert world.solve(task) == world.reference(task) == ADD["reference"]
    assert world.grade(task, world.solve(task)).reward == 1
    assert graded(world, "def add(a, b): return a - b").info["outcome"] == "wrong"
    assert graded(world, "def add(a, b): return round(a + b)").info["passed"] == 0.5
    assert worlds.check_world(files(*({**ADD, "prompt": f"{i}: add(a, b)"} for i in range(8)), held_out=0.3)) == []


def test_mbpp_is_recognised(files: Any) -> None:
    world = files(MBPP)
    task = world.task(0)
    assert task.data["function"] == "similar"
    assert task.data["tests"] == [([[1], [2]], [])]  # what JSON can hold is compared outside
    assert len(task.data["assertions"]) == 2
    assert "For example: similar([1], [2]) == []" in task.prompt
    assert world.grade(task, world.solve(task)).info["outcome"] == "right"
    assert graded(world, "def similar(a, b): return [1.5]").info["passed"] == pytest.approx(1 / 3)


def test_humaneval_is_recognised_whether_the_head_is_repeated_or_continued(files: Any) -> None:
    world = files(HUMANEVAL)
    task = world.task(0)
    assert task.data["tests"] == [([[1, 2]], 2), ([[-3]], -3)]
    assert task.data["assertions"] == []
    for text in ("    return max(xs)", "def top(xs: List[int]):\n    return max(xs)", world.solve(task)):
        assert world.grade(task, text).info["outcome"] == "right", text
    assert world.grade(task, "    return min(xs)").info["outcome"] == "wrong"
    assert world.grade(task, "I cannot say.").info["outcome"] == "syntax"


CHECK = {
    "prompt": "near(x), a number near x",
    "entry_point": "near",
    "test": "def check(candidate):\n    for x in range(5):\n        assert abs(candidate(x) - x) < 1e-3\n",
}
# Games that a program may play with assertions that run beside it.
GAMES = [
    "import os\ndef near(x): os._exit(0)",
    "import sys\ndef near(x): sys.exit(0)",
    "import sys\ndef near(x): return x\nsys.exit(0)",
    "class E(float):\n    def __sub__(self, other): return 0.0\n    def __lt__(self, other): return True\n"
    "def near(x): return E(x + 5)",
    "class E:\n    def __getattr__(self, name): return lambda *a: self\n    def __sub__(self, other): return self\n"
    "    def __abs__(self): return self\n    def __lt__(self, other): return True\ndef near(x): return E()",
    "import builtins\nbuiltins.abs = lambda x: 0\ndef near(x): return 99",
    "import builtins\nbuiltins.range = lambda *a: []\ndef near(x): return 99",
    "__builtins__['abs'] = lambda x: 0\ndef near(x): return 99",
    "import builtins\nbuiltins.AssertionError = ZeroDivisionError\ndef near(x): return 99",
    "def check(candidate): pass\ndef near(x): return 99",
    "candidate = float\ndef near(x): return 99",
    "import sys\nsys.settrace(lambda *a: sys.exit(0))\ndef near(x): return 99",
    "def near(x): raise StopIteration",
    "def near(x): raise GeneratorExit",
    "near = type('n', (), {'__call__': lambda self, x: 99})()",
]


def test_assertions_that_are_programs_run_beside_the_solution(files: Any) -> None:
    world = files(CHECK)
    assert world.task(0).data["tests"] == []
    assert graded(world, "def near(x): return x").info["outcome"] == "right"
    assert graded(world, "def near(x): return x + 1").info["outcome"] == "wrong"
    assert graded(world, "def near(x): return 1 / x").info["errors"] == 1


@pytest.mark.parametrize("program", GAMES)
def test_the_usual_tricks_with_assertions_fail(files: Any, program: str) -> None:
    feedback = graded(files(CHECK), program)
    assert feedback.reward == 0
    assert not feedback.info["correct"]


def test_a_program_cannot_leave_assertions_out(files: Any) -> None:
    forged = """import json
json.dumps = lambda *a, **k: '{"value": {"problem": "", "outputs": [], "assertions": []}}'
def near(x): return 99"""
    assert graded(files(CHECK), forged).info["outcome"] == "violation"


@pytest.mark.parametrize("name", [*worlds.EMBEDDED, "jsonl:x", "code:x", "gym:x", "textworld:x", "scienceworld:x"])
def test_the_names_of_podiums_worlds_name_no_code(name: str) -> None:
    assert not names_code(name)  # `code` is a module of Python as well


def test_a_row_has_its_own_time(files: Any) -> None:
    slow = "def add(a, b):\n    for _ in range(8 * 10 ** 6): pass\n    return a + b"
    world = files({**ADD, "time_limit": 0.05}, {**ADD, "prompt": "other"})
    assert graded(world, slow).info["outcome"] == "timeout"
    assert graded(world, slow.replace("10 ** 6", "10 ** 4"), task=1).info["outcome"] == "right"


def test_rows_are_held_out_by_their_prompt_or_in_a_second_file(files: Any, tmp_path: Path) -> None:
    rows = [{**ADD, "prompt": f"add {i}", "category": "sums"} for i in range(200)]
    world = files(*rows, *rows, held_out=0.25)
    prompts = {split: {world.task(i, split).prompt for i in range(world.size(split))} for split in ("train", "test")}
    assert not prompts["train"] & prompts["test"]
    assert len(prompts["test"]) == pytest.approx(50, abs=20)
    assert world.task(0).domain == "sums"
    (tmp_path / "test.jsonl").write_text(json.dumps(MBPP))
    assert files(ADD, test_file=str(tmp_path / "test.jsonl")).task(0, "test").data["function"] == "similar"


def test_fields_are_named_by_settings(files: Any) -> None:
    row = {"Q": "?", "F": "add", "T": ["assert add(1, 1) == 2"], "S": ADD["reference"]}
    names = {"prompt_field": "Q", "function_field": "F", "tests_field": "T", "reference_field": "S"}
    world = files(row, instructions=False, **names)
    assert world.task(0).prompt == "?\nFor example: add(1, 1) == 2"
    assert world.grade(world.task(0), world.solve(world.task(0))).reward == 1


def without(row: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in names}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (without(ADD, "prompt"), "none of the fields prompt, question"),
        (without(ADD, "tests"), "none of the fields tests, test_list"),
        (without(ADD, "function"), "no function to test is named. Set function_field"),
        ({**ADD, "function": "a b"}, "'a b' is not the name of a function"),
        ({**ADD, "tests": []}, "there are no tests"),
        ({**ADD, "tests": 3}, "the tests must be a list"),
        ({**ADD, "tests": [3]}, "the tests must be a list"),
        ({**ADD, "tests": [{"args": 2, "expected": 5}]}, "test 1: a test is"),
        ({**ADD, "tests": [{"args": [2, 3]}]}, "test 1: a test is"),
        ({**ADD, "tests": ["assert add(2 == 5"]}, "is not Python"),
        ({**ADD, "setup": "import"}, "the setup is not Python"),
        ({**ADD, "time_limit": "soon"}, "the time limit is 'soon'"),
        ({**ADD, "timeout": -1}, "the time limit is -1"),
        ({**ADD, "reference": ["x"]}, "holds a list"),
    ],
)
def test_a_bad_row_is_refused_with_its_line(files: Any, row: dict[str, Any], message: str) -> None:
    with pytest.raises(PodiumError) as error:
        files(ADD, row)
    assert message in str(error.value)
    assert "problems.jsonl, line 2" in str(error.value)


def test_a_missing_file_task_or_solution_is_named(files: Any, tmp_path: Path) -> None:
    with pytest.raises(PodiumError, match="There is no file"):
        worlds.get(f"code:{tmp_path / 'none.jsonl'}")
    with pytest.raises(PodiumError, match="needs a file"):
        worlds.get("code:")
    world = files(without(ADD, "reference"))
    with pytest.raises(PodiumError, match="has 1 train tasks"):
        world.task(1)
    with pytest.raises(PodiumError, match="leaves no held-out tasks"):
        world.task(0, "test")
    with pytest.raises(PodiumError, match="line 1 has no reference solution"):
        world.solve(world.task(0))
    assert graded(world, ADD["reference"]).info["speedup"] == 0  # nothing to compare with


def test_programs_are_judged_side_by_side_in_threads(files: Any) -> None:
    file = files(ADD)
    for world in (worlds.isolated("code"), worlds.isolated(f"code:{file.file}", {"held_out": 0})):
        assert isolation_of(world) == "thread"
        assert not is_isolated(world)
        world.close()
