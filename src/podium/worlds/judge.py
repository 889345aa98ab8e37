"""Answers that are programs: run in a sandbox, judged by what they return and by the time that they take."""

from __future__ import annotations

import hashlib
import json
import math
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, TypeVar

from podium.core.errors import PodiumError, one_of, within
from podium.protocols.world import Episode, Feedback, Task
from podium.sandbox import CallOutcome, Limits, Sandbox, unconfinable
from podium.sandbox.programs import MODULES
from podium.worlds.graded import Graded, Verdict
from podium.worlds.program_text import program_in, same_value

__all__ = ["Judged", "Judgement"]

RUN = "podium.sandbox.programs:run_program"
PROFILE = "podium.sandbox.programs:own_share"
CORES = os.cpu_count() or 1
PATIENCE = 10  # seconds of wall clock for each second of processor time: others may be using the processor too
MEMORY_MB = 256
FASTEST = 10.0  # the largest speedup
RESOLUTION_S = 2e-3  # differences of processor time below it are noise
REPEATS = 3  # measurements, of which the least counts
REMEMBERED = 10_000  # judgements and times
LONGEST = 200  # characters of an answer's canonical form
UNWRITTEN = ("empty", "missing", "syntax")  # outcomes of a text without the function
SEVERAL_TURNS = ("turn.reward", "turn.state", "turn.next_state", "turn.action", "turn.valid")
PROBLEMS = ("", "error", "missing", "syntax")  # that `run_program` reports
START = Task("start", "", data={"function": "start", "tests": [([], None)]})

T = TypeVar("T")


@dataclass(frozen=True)
class Judgement:
    """The judgement of a program."""

    outcome: str  # right, wrong, error, timeout, memory, violation, crash; empty, missing or syntax: there is none
    results: tuple[bool, ...] = ()  # of each test
    errors: int = 0  # tests in which it raised an error
    answer: str = ""  # what it returned, shortened; equal for programs that behave alike
    cpu_s: float = 0.0
    speedup: float = 0.0  # over the reference; 0 where there is none, and for a program that is not right

    @property
    def passed(self) -> float:
        """The share of the tests."""
        return sum(self.results) / len(self.results) if self.results else 0.0


class Judged(Graded):
    """A program is the last block of code of a text, or the whole text. Its function is called with the arguments of
    each test in a process that knows neither what is expected nor anything of this one; this process compares.

    `rollout.outcome` is right, wrong (other results), error (it raised one), timeout, memory, violation (of the
    sandbox), crash, or, for a text without the function, empty, missing or syntax. `rollout.completed` says that it ran
    to the end on all tests, `rollout.passed` is the share of tests, `rollout.errors` the number in which it raised an
    error, `rollout.speedup` the processor time of the reference in relation to its own. `rollout.parses` and
    `rollout.interface_matches` say that it is a program, and has the function. With `turns` a rollout may try several
    times, told after each what came out; its outcome is that of the last program. With `profile`, `turn.coverage` is
    the share of the time that a right program spends in its own code and not in functions of Python.
    """

    provides: ClassVar[tuple[str, ...]] = (
        *(*Graded.provides, "task.solution", "turn.correct"),
        *(f"{level}.{name}" for level in ("rollout", "turn") for name in ("completed", "speedup", "errors")),
        *("rollout.passed", "rollout.outcome", "rollout.parses", "rollout.interface_matches"),
    )
    blank: ClassVar[Mapping[str, Any]] = {
        "completed": False,
        "speedup": 0.0,
        "errors": 0.0,
        "passed": 0.0,
        "outcome": "failed",  # the world itself
        "parses": False,
        "interface_matches": False,
        "coverage": 0.0,
    }
    uses_sandbox = True
    isolation = "thread"  # a verdict takes a while; several programs run at once
    max_tokens = 256
    act_limit_s = 600.0  # the sandbox keeps the time; programs wait for their turn
    reward: str = "all"  # 1 for a program that passes all tests, or the share of tests that it passes
    speed: float = 0.0  # the weight of the speedup in the reward of a right program
    seconds: float = 1.0  # of processor time for all tests
    turns: int = 1  # programs that a rollout may write, one after another
    profile: bool = False  # whether `turn.coverage` is measured

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, "turns", 1, 20)
        several = SEVERAL_TURNS if self.turns > 1 else ()
        if several or self.profile:
            profiled = ("turn.coverage", "rollout.coverage") if self.profile else ()
            object.__setattr__(self, "provides", (*type(self).provides, *several, *profiled))
        one_of(self, "reward", ("all", "share"))
        within(self, "speed", 0, 10)
        within(self, "seconds", 0, 60, open_low=True)

    @cached_property
    def sandbox(self) -> Sandbox:
        """Where programs run: a few at a time, so that each gets its share of the processor."""
        return Sandbox(("podium.sandbox.programs", *MODULES), max_processes=max(4, 2 * CORES))

    def check_system(self) -> None:
        """Refuse a system that cannot confine a program."""
        if reason := unconfinable():
            raise PodiumError(
                f"The world {self.name!r} runs what a model writes, which cannot be confined on this system: {reason}. "
                "Use Linux on x86-64 or 64-bit ARM, in a container or a virtual machine if need be."
            )

    @cached_property
    def _cache(self) -> _Cache:
        return _Cache()

    def close(self) -> None:
        """End the server of its sandbox."""
        self.sandbox.close()

    def read(self, text: str) -> str | None:
        return program_in(text)

    def grade(self, task: Task, text: str, seed: int = 0) -> Feedback:
        judgement = self.judge(task, text)
        outcome, answer, speedup = judgement.outcome, judgement.answer, judgement.speedup
        correct = outcome == "right"
        score = judgement.passed if self.reward == "share" else float(correct)
        if correct and self.speed and speedup > 1:
            score += self.speed * math.log(speedup) / math.log(FASTEST)
        reward = self._reward(task, Verdict(correct, answer, score), outcome not in UNWRITTEN, text, seed)
        columns = {"correct": correct, "answer": answer, "outcome": outcome, "passed": judgement.passed}
        columns |= {"completed": outcome in ("right", "wrong"), "errors": float(judgement.errors), "speedup": speedup}
        columns |= {"parses": outcome not in ("empty", "syntax"), "interface_matches": outcome not in UNWRITTEN}
        if self.profile:
            columns["coverage"] = self._coverage(task, text) if correct else 0.0
        return self.rewarded(task, text, Feedback(reward, state=task.key, info=columns))

    def reset(self, task: Task, seed: int = 0) -> Episode:
        return super().reset(task, seed) if self.turns == 1 else _Attempts(self, task, seed)

    def _coverage(self, task: Task, text: str) -> float:
        """The share of its time that a right program spends in its own code. The same program is profiled once."""
        program = program_in(text, task.data["function"]) or ""
        return self._cache.get((task.key, program, "coverage"), lambda: self._profiled(task, _whole(task, program)))

    def _profiled(self, task: Task, source: str) -> float:
        inputs = [arguments for arguments, _ in task.data["tests"]]
        limits = Limits(wall_s=PATIENCE * self.seconds * 10, cpu_s=10 * self.seconds, memory_mb=MEMORY_MB)
        outcome = self.sandbox.call(PROFILE, source, task.data["function"], inputs, limits=limits)
        share = outcome.value
        if outcome.failure or not isinstance(share, float) or not 0 <= share <= 1:
            return 0.0
        return round(share, 2)

    def judge(self, task: Task, text: str) -> Judgement:
        """The judgement of the program in a text. The same program is judged once."""
        name = task.data["function"]
        program = program_in(text, name)
        if program is None:
            return Judgement("empty")
        if name not in program and not task.data.get("prefix"):
            return Judgement("missing", answer=f"no function {name}")
        return self._cache.get((task.key, program), lambda: self._judged(task, _whole(task, program)))

    def _judged(self, task: Task, source: str) -> Judgement:
        judgement = self._run(task, source)
        if judgement.outcome == "crash":  # perhaps the machine is to blame, which may have run out of memory
            judgement = self._run(task, source)
        if judgement.outcome == "right" and task.data.get("reference"):
            return replace(judgement, speedup=self._speedup(task, source, judgement.cpu_s))
        return judgement

    def _run(self, task: Task, source: str) -> Judgement:
        data = task.data
        seconds = data.get("seconds") or self.seconds
        limits = Limits(wall_s=PATIENCE * max(seconds, 1.0), cpu_s=seconds, memory_mb=MEMORY_MB)
        inputs = [arguments for arguments, _ in data["tests"]]
        rest = data.get("setup", ""), data.get("assertions", ())
        outcome = self.sandbox.call(RUN, source, data["function"], inputs, *rest, limits=limits)
        if outcome.failure or outcome.cpu_s > seconds:
            return _failed(outcome)
        try:
            return _compared(outcome, [expected for _, expected in data["tests"]], len(rest[1]))
        except (KeyError, TypeError, ValueError, AttributeError):  # the program has forged the answer
            return Judgement("violation", answer="violation: an answer of another form", cpu_s=outcome.cpu_s)

    # -- time ------------------------------------------------------------------------------------------------------

    def _speedup(self, task: Task, source: str, cpu_s: float) -> float:
        """How many times faster than the reference, by the processor time of the whole process without its start.

        A difference below the resolution counts as none. Measurements are repeated where the reward depends on them,
        and of programs that seem slower than the reference.
        """
        start = self._cache.get("start", lambda: self._least(2 * REPEATS, START, "def start():\n    pass"))
        reference = _whole(task, task.data["reference"])
        reference_s = self._cache.get((task.key, "time"), lambda: self._least(REPEATS, task, reference))
        if math.isinf(reference_s):
            return 0.0
        if self.speed or cpu_s > reference_s + RESOLUTION_S:  # noise only ever adds
            cpu_s = min(cpu_s, self._least(REPEATS - 1, task, source))
        if abs(reference_s - cpu_s) < RESOLUTION_S:
            return 1.0
        before, after = (max(seconds - start, 0.0) + RESOLUTION_S / 2 for seconds in (reference_s, cpu_s))
        return round(min(before / after, FASTEST), 2)

    def _least(self, count: int, task: Task, source: str) -> float:
        """The least time of the runs that came out right: a program that sometimes does nothing gains nothing."""
        runs = (self._run(task, source) for _ in range(count))
        return min((run.cpu_s for run in runs if run.outcome == "right"), default=math.inf)


class _Attempts(Episode):
    """Several programs for a problem, each judged and commented on."""

    def __init__(self, world: Judged, task: Task, seed: int) -> None:
        super().__init__(task.prompt, state=f"{task.key}/start")
        self.world, self.task, self.seed, self.turn = world, task, seed, 0

    def act(self, text: str) -> Feedback:
        self.turn += 1
        graded = self.world.grade(self.task, text, self.seed)
        done, info = self.turn >= self.world.turns, graded.info
        right, outcome = info["correct"], info["outcome"]
        remark = (
            f"right, speedup {info['speedup']:g}: make it faster"
            if right
            else f"{outcome}: {info['passed']:.0%} passed"
        )
        self.state = f"{self.task.key}/{outcome}: {info['answer']}"
        return replace(
            graded,
            done=done,
            observation="" if done else remark,
            state=self.state,
            info={**info, "valid": outcome not in UNWRITTEN},
        )


class _Cache:
    """Results by key, the most recently used up to a number. The first result for a key stays, so that the same program
    always gets the same judgement, even if two threads judge it at once."""

    def __init__(self) -> None:
        self._results: OrderedDict[Hashable, Any] = OrderedDict()
        self._change = threading.Lock()

    def get(self, key: Hashable, compute: Callable[[], T]) -> T:
        with self._change:
            if key in self._results:
                self._results.move_to_end(key)
                return self._results[key]
        result = compute()
        with self._change:
            result = self._results.setdefault(key, result)
            while len(self._results) > REMEMBERED:
                self._results.popitem(last=False)
        return result


def _whole(task: Task, program: str) -> str:
    """The program below the prefix of its task, such as the head of the function."""
    prefix = task.data.get("prefix", "")
    if not prefix:
        return program
    continues = f"def {task.data['function']}" not in program
    return f"{prefix.rstrip() if continues else prefix}\n{program}"


def _failed(outcome: CallOutcome) -> Judgement:
    kind = outcome.failure or "timeout"
    return Judgement(kind, answer=f"{kind}: {outcome.detail}"[:LONGEST].removesuffix(": "), cpu_s=outcome.cpu_s)


def _compared(outcome: CallOutcome, expected: list[Any], assertions: int) -> Judgement:
    """A judgement by what a program has returned: two texts for each test, its value and its error, and a text for each
    assertion. A program can put anything in their place, whose form is checked here."""
    result, cpu_s = outcome.value, outcome.cpu_s
    problem = result["problem"]
    if problem not in PROBLEMS:
        raise ValueError(problem)
    if problem:
        return Judgement(problem, errors=int(problem == "error"), answer=_canonical(result["detail"]), cpu_s=cpu_s)
    if len(result["assertions"]) != assertions:
        raise ValueError("not every assertion was run")
    pairs = zip(result["outputs"], expected, strict=True)
    results = [_agrees(value, error, wanted) for (value, error), wanted in pairs]
    results += [not error for error in result["assertions"]]
    errors = [error for _, error in result["outputs"] if error]
    errors += [error for error in result["assertions"] if error not in ("", "failed")]
    outcome_kind = "right" if all(results) else "error" if errors else "wrong"
    shown = [value or error.partition(":")[0] for value, error in result["outputs"]]
    shown += [error.partition(":")[0] or "passed" for error in result["assertions"]]
    return Judgement(outcome_kind, tuple(results), len(errors), _canonical("; ".join(shown)), cpu_s)


def _agrees(value: str, error: str, expected: Any) -> bool:
    if error:
        return False
    try:
        return same_value(json.loads(value), expected)
    except (ValueError, RecursionError):  # numbers of too many digits, lists in lists in lists
        return False


def _canonical(text: str) -> str:
    """The text, or the beginning of a long one with a hash; a ValueError if it holds half a character."""
    data = text.encode()
    if len(text) <= LONGEST:
        return text
    return f"{text[: LONGEST - 20]}… {hashlib.blake2b(data, digest_size=6).hexdigest()}"
