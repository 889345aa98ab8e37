"""The countdown game: reach a target from given numbers."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from random import Random

from podium.core.errors import PodiumError
from podium.protocols.answer_text import plain
from podium.protocols.world import Task
from podium.worlds.expression import Constant, Form, Product, parse, reachable
from podium.worlds.graded import Verdict
from podium.worlds.puzzle import Draft, Puzzle, Slip, answered

__all__ = ["Countdown"]

# By level: how many numbers, how many of them the solution uses, and the largest number.
LEVELS = {1: (3, 2, 12), 2: (3, 3, 12), 3: (4, 4, 12), 4: (4, 4, 25), 5: (5, 5, 25)}
LARGEST = 99  # the largest intermediate value
TRIES = 300  # sets of numbers tried for one task


class Countdown(Puzzle):
    """Make the target from the numbers with + - *, each number at most once; there are often several solutions.

    The answer's canonical form (`info["answer"]`) is equal for solutions that differ only in order and parentheses.
    """

    name = "countdown"
    summary = "reach a target from given numbers with + - *"
    levels = tuple(LEVELS)
    styles = ("short", "long", "backward")
    max_tokens = 80
    solutions: int = 0  # how many different solutions each task has; 0: any number

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.solutions, bool) or not isinstance(self.solutions, int) or self.solutions < 0:
            raise PodiumError(f"countdown.solutions = {self.solutions!r} must be a whole number; 0: as it comes.")

    @property
    def family(self) -> str:
        return f"{super().family}-solutions-{self.solutions}" if self.solutions else super().family

    def draft(self, rng: Random) -> Draft:
        count, used, largest = LEVELS[self.level]
        for _ in range(TRIES):
            numbers = rng.sample(range(1, largest + 1), count)
            form = self._chosen(numbers, rng) if self.solutions else _walk(numbers[:used], used - 1, rng)
            if form is not None and 1 < form.value <= LARGEST and form.value not in numbers:
                break
        else:
            raise PodiumError(
                f"No countdown task of level {self.level} with exactly {self.solutions} solutions was found in "
                f"{TRIES} tries: ask for fewer, or for another level."
            )
        rng.shuffle(numbers)
        listed = " ".join(map(str, numbers))
        data = {"numbers": numbers, "target": form.value, "solution": form.text}
        return Draft(f"make {form.value} from {listed}", f"{form.value}: {sorted(numbers)}", data)

    def _chosen(self, numbers: list[int], rng: Random) -> _Item | None:
        """A solution for a target with exactly `self.solutions` solutions."""
        forms_of = reachable(tuple(sorted(numbers)))
        targets = [v for v, forms in forms_of.items() if len(forms) == self.solutions and 1 < v <= LARGEST]
        if not targets:
            return None
        return _item(rng.choice(forms_of[rng.choice(sorted(targets))]))

    def explain(self, task: Draft) -> str:
        numbers = ", ".join(map(str, task.data["numbers"]))
        return (
            f"Find an expression that equals {task.data['target']}, made from the numbers {numbers} with +, - and * "
            "(and parentheses). Use each number at most once. The answer is the expression."
        )

    def verdict(self, task: Task, answer: str) -> Verdict:
        said = plain(answer).partition("=")[0].strip()
        form = parse(said)
        if form is None:
            return Verdict(False, said[:100])
        fits = not Counter(form.numbers) - Counter(task.data["numbers"])
        return Verdict(fits and form.value == task.data["target"], str(form))

    def count(self, task: Task) -> int:
        """How many different solutions the task has."""
        return len(reachable(tuple(sorted(task.data["numbers"]))).get(task.data["target"], ()))

    def write(self, task: Task, style: str, rng: Random, slip: Slip) -> str:
        return self._write(task, parse(task.data["solution"]), style, rng, slip)

    def solve(self, task: Task, style: str = "short", seed: int = 0) -> str:
        """Seed 0 gives the solution that the task was made from; other seeds cycle through all solutions."""
        if seed == 0:
            return super().solve(task, style, seed)
        forms = reachable(tuple(sorted(task.data["numbers"])))[task.data["target"]]
        rng = Random(f"{task.key}/{style}/{seed}")
        return self._write(task, forms[seed % len(forms)], style, rng, Slip())

    def _write(self, task: Task, form: Form | None, style: str, rng: Random, slip: Slip) -> str:
        assert form is not None
        target, numbers = task.data["target"], task.data["numbers"]
        plan = _steps(form, rng)
        if style == "backward" and _unwinds(plan):
            return _backward(plan, numbers, target, rng, slip)
        lines = []
        if style == "long":
            failures = rng.choice((0, 1, 1, 2)) if len(plan) < 3 else rng.choice((0, 1)) if len(plan) < 4 else 0
            pool = [_Item(n, str(n)) for n in numbers]
            lines = [f"{_line(_astray(pool, len(plan), target, rng))} no" for _ in range(failures)]
        taken, verdict = _forward(plan, numbers, target, rng, slip)
        lines += [f"{_line(taken)} {verdict}"] if style == "long" else [s.equation for s in taken]
        return answered(lines, taken[-1].made.text)


@dataclass(frozen=True)
class _Item:
    """An available number, and the expression that makes it."""

    value: int
    text: str
    is_sum: bool = False

    def wrapped(self) -> str:
        return f"({self.text})" if self.is_sum else self.text


@dataclass(frozen=True)
class _Step:
    left: _Item
    sign: str
    right: _Item
    made: _Item
    claimed: int  # the result as written

    @property
    def equation(self) -> str:
        return f"{self.left.value}{self.sign}{self.right.value}={self.claimed}"


def _step(left: _Item, sign: str, right: _Item, claimed: int | None = None) -> _Step:
    if sign == "*":
        made = _Item(left.value * right.value, f"{left.wrapped()}*{right.wrapped()}")
    elif sign == "+":
        made = _Item(left.value + right.value, f"{left.text}+{right.text}", True)
    else:
        made = _Item(left.value - right.value, f"{left.text}-{right.wrapped()}", True)
    return _Step(left, sign, right, made, made.value if claimed is None else claimed)


def _steps(form: Form, rng: Random) -> list[_Step]:
    """The form evaluated two numbers at a time, in a random valid order."""
    steps: list[_Step] = []

    def work(form: Form) -> _Item:
        if isinstance(form, Constant):
            return _Item(form.value, str(form))
        if isinstance(form, Product):
            parts = [("*", f) for f in rng.sample(form.factors, len(form.factors))]
        else:
            parts = [("+", f) for f in rng.sample(form.added, len(form.added))]
            parts += [("-", f) for f in rng.sample(form.taken, len(form.taken))]
        item = work(parts[0][1])
        for sign, part in parts[1:]:
            steps.append(_step(item, sign, work(part)))
            item = steps[-1].made
        return item

    work(form)
    return steps


def _item(form: Form) -> _Item:
    return _Item(form.value, str(form), not isinstance(form, (Constant, Product)))


def _random_step(pool: list[_Item], rng: Random) -> _Step | None:
    """Two numbers of the pool combined; None if the result would be useless or too large."""
    left, right = rng.sample(pool, 2)
    sign = rng.choice("+-*")
    if left.value < right.value:
        left, right = right, left
    step = _step(left, sign, right)
    useless = step.made.value < 1 or (sign == "*" and right.value == 1)
    return None if useless or step.made.value > LARGEST else step


def _random_steps(pool: list[_Item], count: int, rng: Random) -> list[_Step]:
    """Up to `count` random steps from the pool; fewer if no useful one is left."""
    pool = list(pool)
    steps: list[_Step] = []
    for _ in range(20 * count):
        if len(steps) == count or len(pool) < 2:
            break
        step = _random_step(pool, rng)
        if step is not None:
            _take(pool, step)
            steps.append(step)
    return steps


def _take(pool: list[_Item], step: _Step) -> None:
    """Replace the numbers that the step combines by its result."""
    for item in (step.left, step.right):
        pool.remove(item)
    pool.append(step.made)


def _walk(numbers: list[int], count: int, rng: Random) -> _Item | None:
    steps = _random_steps([_Item(n, str(n)) for n in numbers], count, rng)
    return steps[-1].made if len(steps) == count else None


def _line(steps: list[_Step]) -> str:
    return " ".join(s.equation for s in steps)


def _forward(plan: list[_Step], numbers: list[int], target: int, rng: Random, slip: Slip) -> tuple[list[_Step], str]:
    """The steps as written and the writer's verdict on them; after a slip they are random and miss the target."""
    pool = [_Item(n, str(n)) for n in numbers]
    for done, step in enumerate(plan):
        if slip():
            wrong = _astray(pool, len(plan) - done, target, rng)
            if rng.random() < 0.4:  # wishful arithmetic: the target is claimed as the result
                last = wrong[-1]
                wrong[-1] = _step(last.left, last.sign, last.right, claimed=target)
                return plan[:done] + wrong, "yes"
            return plan[:done] + wrong, "no"
        _take(pool, step)
    return plan, "yes"


def _astray(pool: list[_Item], count: int, target: int, rng: Random) -> list[_Step]:
    """Random steps that do not end at the target."""
    for _ in range(50):
        steps = _random_steps(pool, count, rng)
        if steps and steps[-1].made.value != target:
            return steps
    left, right = sorted(pool[:2], key=lambda item: -item.value)
    return [_step(left, "+" if left.value + right.value != target else "-", right)]


def _unwinds(plan: list[_Step]) -> bool:
    """Whether the solution can be undone from its end: each step combines one given number with the previous result."""
    return all(a.made in (b.left, b.right) for a, b in pairwise(plan))


def _backward(plan: list[_Step], numbers: list[int], target: int, rng: Random, slip: Slip) -> str:
    """Work backwards from the target: what must be reached before the last step, before the one before it, …"""
    pool = [_Item(n, str(n)) for n in numbers]
    goal, lines, undone = target, [], []
    strayed = False
    for before, step in zip(reversed(plan[:-1]), reversed(plan[1:]), strict=True):
        inner = before.made
        number, inner_left = (step.right, True) if step.left == inner else (step.left, False)
        sign = step.sign
        strayed = strayed or slip()
        if strayed:
            number, sign, inner_left = _random_undo(pool, goal, rng)
        equation, goal = _undo(goal, sign, number.value, inner_left)
        lines.append(equation)
        undone.append((number, sign, inner_left))
        pool.remove(number)
    first = plan[0]
    if strayed or slip():
        left, right = rng.sample(pool, 2)
        sign = rng.choice("+-*")
        first = _step(left, sign, right)
        if first.made.value == goal:
            first = _step(left, "+" if sign != "+" else "*", right)
    lines.append(f"{goal}={first.left.value}{first.sign}{first.right.value}")
    item = first.made
    for number, sign, inner_left in reversed(undone):
        item = (_step(item, sign, number) if inner_left else _step(number, sign, item)).made
    return answered(lines, item.text)


def _undo(goal: int, sign: str, number: int, inner_left: bool) -> tuple[str, int]:
    """The equation that undoes `rest sign number` (or `number sign rest`) = goal, and the value of rest."""
    if sign == "+":
        return f"{goal}-{number}={goal - number}", goal - number
    if sign == "*":
        return f"{goal}/{number}={goal // number}", goal // number
    if inner_left:
        return f"{goal}+{number}={goal + number}", goal + number
    return f"{number}-{goal}={number - goal}", number - goal


def _random_undo(pool: list[_Item], goal: int, rng: Random) -> tuple[_Item, str, bool]:
    number = rng.choice(pool)
    options = [("-", True)]
    if goal > number.value:
        options.append(("+", True))
    if number.value > goal:
        options.append(("-", False))
    if number.value > 1 and goal % number.value == 0:
        options.append(("*", True))
    sign, inner_left = rng.choice(options)
    return number, sign, inner_left
