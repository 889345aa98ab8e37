"""A world that runs what is written."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from podium import worlds
from podium.collect.driver import Driver
from podium.core.batch import Batch
from podium.core.errors import PodiumError
from podium.core.serial import decode, encode
from podium.policy import load
from podium.protocols.sampling import Sampling
from podium.report.live import STOPPED, Live
from podium.sampler.local import LocalSampler
from podium.strategies.requests import Recite, TaskRequest
from podium.training.metrics import Metrics
from podium.worlds import Code, Feedback, Task
from podium.worlds.judge import Judgement
from podium.worlds.program_text import program_in, same_value

each_level = pytest.mark.parametrize("level", Code.levels)
DOUBLE = Task(
    "t",
    "double(x)",
    data={"function": "double", "tests": [([n], 2 * n) for n in range(4)], "reference": "def double(x): return 2 * x"},
)


@pytest.fixture(scope="module")
def code() -> Iterator[Code]:
    """One sandbox for all tests that need no other settings."""
    world = Code(level=2)
    yield world
    world.close()


def graded(world: Code, text: str, task: Task = DOUBLE) -> Feedback:
    return world.grade(task, text)


@each_level
def test_the_checker_finds_nothing(level: int) -> None:
    world = Code(level=level)
    assert worlds.check_world(world, tasks=3) == []
    world.close()


@each_level
def test_solutions_of_every_style_are_right_and_a_wrong_step_shows(level: int, code: Code) -> None:
    world = Code(level=level)
    for i in range(16):
        task = world.task(i, "test" if i % 2 else "train")
        for style in world.styles:
            feedback = code.grade(task, world.solve(task, style))
            assert feedback.reward == 1, (task, world.solve(task, style), feedback)
            assert feedback.info["outcome"] == "right"
            assert feedback.info["passed"] == 1
            wrong = code.grade(task, world.attempt(task, style, right=0.0))
            assert not wrong.info["correct"], (task.prompt, world.attempt(task, style, right=0.0))
            assert wrong.reward == 0
            assert wrong.info["answer"]


@each_level
def test_tasks_depend_on_their_number_alone_and_are_held_out_by_what_they_ask(level: int) -> None:
    world = Code(level=level)
    assert [world.task(i) for i in range(5)] == [Code(level=level).task(i) for i in reversed(range(5))][::-1]
    train, test = ({world.task(i, split).prompt.split("\n")[0] for i in range(150)} for split in ("train", "test"))
    assert not train & test
    assert len(train) > 100


@each_level
def test_prompts_and_solutions_are_short(level: int) -> None:
    policy, world = load("podium/tiny"), Code(level=level)
    for i in range(30):
        task = world.task(i)
        assert len(task.prompt) < 330
        for style in world.styles:
            assert len(policy.written(world.solve(task, style))) < world.max_tokens
            compile(world.solve(task, style), "", "exec")


def test_instructions_explain_the_same_task() -> None:
    plain, explained = Code(), Code(instructions=True)
    assert explained.task(3).prompt.startswith(plain.task(3).prompt)
    assert "```python block" in explained.task(3).prompt
    assert explained.task(3).data == plain.task(3).data


def test_the_number_of_tests_is_a_setting() -> None:
    assert [len(Code(tests=n).task(0).data["tests"]) for n in (1, 6, 20)] == [1, 6, 20]


# What a model may write, and what becomes of it.
OUTCOMES = {
    "def double(x): return 2 * x": "right",
    "double = lambda x: x + x": "right",
    "from operator import add\ndef double(x):\n    return add(x, x)": "right",
    "def double(x): return 2.0 * x": "right",
    "def double(x): return 3 * x": "wrong",
    "def double(x): return str(2 * x)": "wrong",
    "def double(x): return True": "wrong",
    "def double(x): print(2 * x)": "wrong",
    "def double(x): return 2 * x / x": "error",
    "def double(x): return {2 * x}": "error",
    "def double(x): return double(x)": "error",
    "def double(): return 0": "error",
    "def double(x): raise SystemExit(0)": "error",
    "import numpy_that_is_not_there\ndef double(x): return 2 * x": "error",
    "raise SystemExit\ndef double(x): return 2 * x": "error",
    "def double(x): return input()": "error",
    "def twice(x): return 2 * x": "missing",
    "# def double": "missing",
    "double = 3": "missing",
    "I do not know.": "missing",
    "def double(x) return 2 * x": "syntax",
    "def double(x):\n  return '\x00'": "syntax",
    "double(" * 20_000: "syntax",
    "def double(x):\n    return '\ud800'.encode()": "syntax",
    "": "empty",
    "```python\n```": "empty",
    "def double(x):\n    while True: pass": "timeout",
    "while 'double': pass": "timeout",
    "def double(x): return 9 ** 9 ** 9": "timeout",
    "def double(x): return [0] * 10 ** 10": "memory",
    "def double(x): return 'x' * 10 ** 10": "memory",
    "import os\ndef double(x): os._exit(0)": "crash",
    "import os\ndouble = None\nos._exit(0)": "crash",
    "import os\ndef double(x): os.fork()": "violation",
    "import os\ndef double(x): os.kill(os.getppid(), 9)": "violation",
    "import socket\ndef double(x): socket.socket()": "violation",
    "def double(x): return open('/etc/passwd').read()": "error",
    "def double(x): return open('x', 'w').write('x')": "error",
    "class E:\n    def __eq__(self, other): return True\ndef double(x): return E()": "error",
    "class E(int):\n    def __eq__(self, other): return True\ndef double(x): return E(7)": "wrong",
    "import json\njson.dumps = lambda *a, **k: '[]'\ndef double(x): return 2 * x": "crash",
}


@pytest.mark.parametrize(("text", "outcome"), OUTCOMES.items(), ids=[repr(text[:50]) for text in OUTCOMES])
def test_whatever_is_written_has_an_outcome(code: Code, text: str, outcome: str) -> None:
    feedback = graded(code, text)
    assert feedback.info["outcome"] == outcome, feedback
    assert feedback.reward == (outcome == "right")
    assert feedback.info["completed"] == (outcome in ("right", "wrong"))
    assert len(feedback.info["answer"]) <= 250
    assert feedback.info["answer"] or outcome == "empty"


# What a program may say in place of its outputs, as JSON; the last has its form, and only wrong values.
FORGED = [
    '{"value": {"problem": "right", "detail": ""}}',
    '{"value": {"problem": ["right"], "detail": ""}}',
    '{"value": {"problem": "error", "detail": "\\\\ud800"}}',
    '{"value": {"problem": "error", "detail": 7}}',
    '{"value": {"problem": "", "outputs": [], "assertions": []}}',
    '{"value": {"problem": "", "outputs": [["\\\\ud800", ""]], "assertions": []}}',
    '{"failure": "right", "detail": ""}',
    '{"failure": ["crash"], "detail": ""}',
    '{"value": null}',
    '{"value": {"problem": "", "outputs": [["7", ""], ["7", ""], ["7", ""], ["7", ""]], "assertions": []}}',
]
WAYS = {
    "its writer of JSON": "import json\njson.dumps = lambda *a, **k: FORGED\ndef double(x): return 0",
    "its channel": (
        "import os, sys\n"
        "from podium.sandbox.frames import framed\n"
        "def double(x):\n"
        "    frame = sys._getframe()\n"
        "    while 'token' not in frame.f_locals: frame = frame.f_back\n"
        "    os.write(3, framed(frame.f_locals['token'] + FORGED.encode()))\n"
        "    os._exit(0)"
    ),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_program_cannot_forge_its_answer(code: Code, way: str) -> None:
    """It can find the handle and the token of its process, and say what it likes: what is expected it does not know."""
    for forged in FORGED:
        feedback = graded(code, way.replace("FORGED", f"'{forged}'"))
        assert not feedback.info["correct"]
        assert feedback.reward == 0
        assert feedback.info["outcome"] in ("crash", "violation", "wrong")
        f"{feedback.info}".encode()
    assert graded(code, "def double(x): return 2 * x  # the next one").reward == 1


def test_errors_and_the_share_of_tests_are_counted(code: Code) -> None:
    half = graded(code, "def double(x):\n    if x > 1: raise ValueError('large')\n    return 2 * x").info
    assert (half["errors"], half["passed"], half["completed"]) == (2, 0.5, False)
    assert half["answer"] == "0; 2; ValueError; ValueError"
    assert half["speedup"] == 0
    shared = Code(reward="share")
    assert graded(shared, "def double(x): return 4 if x else 0").reward == 0.5
    assert graded(shared, "def double(x): return 2 * x").reward == 1
    shared.close()


def test_programs_that_behave_alike_have_one_answer(code: Code) -> None:
    texts = ("def double(x): return 2 * x", "def double(y): return y + y", "def double(x): return 3 * x")
    first, second, third = (graded(code, text).info["answer"] for text in texts)
    assert first == second != third


def test_a_program_is_the_last_block_or_the_whole_text() -> None:
    first, second = "```python\ndef f(): return 1\n```", "```\nf(2)\n```"
    assert program_in(f"So:\n{first}\nUse it:\n{second}\n", "def f") == "def f(): return 1\n"
    assert program_in(f"{first}\n{second}", "f") == "f(2)\n"
    assert program_in("Well:\n```py\ndef f():\n    return 1", "f") == "def f():\n    return 1\n"
    assert program_in("<think>def f(): return 0</think>\ndef f(): return 1", "f") == "\ndef f(): return 1\n"
    assert program_in(" \n") is None


@pytest.mark.parametrize(
    ("value", "expected", "same"),
    [
        (1, True, False),
        (True, True, True),
        (0, False, False),
        (2, 2.0, True),
        (0.1 + 0.2, 0.3, True),
        (0.31, 0.3, False),
        (10**20 + 1, 10**20, False),
        (10**400, 1.5, False),
        (float("nan"), float("nan"), True),
        (float("inf"), float("inf"), True),
        ("1", 1, False),
        ([1, [2.0]], [1, [2]], True),
        ([1], [1, 2], False),
        ({"a": 1}, {"a": 1.0}, True),
        ({"a": 1}, {"b": 1}, False),
        (None, 0, False),
        ([], {}, False),
    ],
)
def test_values_are_compared_by_kind(value: Any, expected: Any, same: bool) -> None:
    assert same_value(value, expected) is same


SLOW = "def count(n):\n    t = 0\n    for i in range(n): t += 1\n    return t"
COUNT = Task("c", "count(n)", data={"function": "count", "tests": [([1_000_000], 1_000_000)], "reference": SLOW})


def test_speed_is_measured_against_the_reference_and_rewarded_on_request(code: Code) -> None:
    fast = "def count(n): return n"
    assert code.grade(COUNT, fast).info["speedup"] > 2
    assert code.grade(COUNT, fast).reward == 1
    assert code.grade(COUNT, SLOW.replace("t += 1", "t += 1; i * i * i; i * i * i")).info["speedup"] < 1
    rewarded = Code(speed=0.5)
    assert 1.1 < rewarded.grade(COUNT, fast).reward <= 1.5
    assert rewarded.grade(COUNT, "def count(n): return n + 1").reward == 0
    assert rewarded.grade(DOUBLE, "def double(x): return 2 * x").reward == 1  # too short to be measured
    rewarded.close()


def test_only_runs_that_are_right_are_measured() -> None:
    world = Code(speed=1.0)
    runs = iter(["right", *["wrong"] * 100])
    lazy, honest = "def count(n): return n  # lazy", world._run

    def run(task: Task, source: str) -> Judgement:
        found = honest(task, source)
        return replace(found, outcome=next(runs), cpu_s=0.5) if "lazy" in source else found

    world.__dict__["_run"] = run
    assert world.grade(COUNT, lazy).info["speedup"] < 1
    broken = Task("b", "", data={**COUNT.data, "reference": "def count(n): return 0"})
    assert world.grade(broken, "def count(n): return n").info["speedup"] == 0
    world.close()


def test_the_reward_depends_on_no_clock_unless_asked(code: Code) -> None:
    other = Code(level=2)
    for text in ("def count(n): return n", SLOW):
        first, second = code.grade(COUNT, text), other.grade(COUNT, text)
        assert first.reward == second.reward
        assert {**first.info, "speedup": 0} == {**second.info, "speedup": 0}
    other.close()


def test_chance_and_order_are_the_same_in_every_process() -> None:
    text = "import random\ndef double(x): return [random.random(), str({'a', 'b', 'c'})]"
    answers = []
    for _ in range(2):
        world = Code()
        answers.append(graded(world, text).info["answer"])
        world.close()
    assert answers[0] == answers[1]


def test_noise_and_spurious_rewards_apply_to_programs() -> None:
    with_format, wrong = Code(spurious="format"), Code(spurious="wrong")
    texts = ("def double(x): return 2 * x", "def double(x): return x", "hello")
    assert [graded(with_format, text).reward for text in texts] == [1, 1, 0]
    assert [graded(wrong, text).reward for text in texts] == [0, 1, 0]
    assert graded(Code(noise=1.0), texts[2]).reward == 1
    for world in (with_format, wrong):
        world.close()


def test_many_threads_ask_at_once(code: Code) -> None:
    found: dict[int, Feedback] = {}

    def ask(number: int) -> None:
        text = f"def double(x): return {number % 4} * x" if number % 16 else "import os\ndef double(x): os._exit(1)"
        found[number] = graded(code, text + f"  # {number}")

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [number for number in range(64) if found[number].info["correct"]] == [n for n in range(64) if n % 4 == 2]
    assert {found[number].info["outcome"] for number in range(0, 64, 16)} == {"crash"}


def test_outcomes_are_columns_and_counted_in_the_metrics(code: Code) -> None:
    """A scripted policy: texts of all kinds in one batch, of which the run goes on."""
    policy, task = load("podium/tiny"), code.task(0)
    texts = (code.solve(task), code.attempt(task, right=0.0), f"def {task.data['function']}(", "hello")
    texts += (f"while '{task.data['function']}': pass",)
    request = TaskRequest(task, 0, Sampling(max_tokens=4), (0, 0, 0))

    def plan() -> Any:
        answers = yield [Recite(request, texts=(text,), index=i) for i, text in enumerate(texts)]
        return [rollout for (rollout,) in answers]

    driver = Driver(LocalSampler(policy), code, follow_up=policy.follow_up, written=policy.written)
    (rollouts,) = driver.collect([plan()])
    batch = Batch.from_rollouts(rollouts)
    assert list(batch["rollout.outcome"]) == ["right", "wrong", "syntax", "missing", "timeout"]
    assert batch["rollout.correct"].tolist() == [1, 0, 0, 0, 0]
    assert batch["rollout.passed"][0] == 1
    assert batch["turn.completed"].tolist() == [1, 1, 0, 0, 0]
    metrics = Metrics()
    metrics.count_sampled(batch)
    assert metrics.line(0)["outcome.timeout"] == 1
    live = Live(Console(file=StringIO()))
    live.begun = 0.0
    shown = live._text(SimpleNamespace(config=SimpleNamespace(iterations=1)), metrics.line(0))  # type: ignore[arg-type]
    assert "stopped 1" in shown
    assert "failures" not in metrics.line(0)


def test_one_iteration_of_training_runs(tmp_path: Path) -> None:
    from podium.sessions.train import train

    result = train("grpo", world="code", iterations=1, tasks=2, out=tmp_path / "run", eval_tasks=2)
    line = result.metrics[-1]
    assert sum(value for name, value in line.items() if name.startswith("outcome.")) == line["rollouts"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"level": 9}, "its levels are 1, 2, 3, 4"),
        ({"tests": 0}, "Code.tests = 0"),
        ({"reward": "some"}, "'share'"),
        ({"speed": -1.0}, "Code.speed = -1"),
        ({"seconds": 0.0}, "Code.seconds = 0"),
    ],
)
def test_wrong_settings_get_a_remedy(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(PodiumError) as error:
        worlds.get("code", **settings)
    assert message in str(error.value)


def test_a_system_that_cannot_confine_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("podium.worlds.judge.unconfinable", lambda: "it has no seccomp")
    with pytest.raises(PodiumError, match=r"cannot be confined on this system: it has no seccomp\. Use Linux"):
        worlds.get("code")


def test_it_round_trips_as_data() -> None:
    world = Code(level=3, tests=4, speed=0.5)
    assert decode(encode(world)) == world
    assert eval(repr(world), vars(worlds)) == world
    assert set(STOPPED) <= set(OUTCOMES.values())
