"""Whatever a model writes is graded at once, as wrong where it is wrong."""

from __future__ import annotations

import time

import pytest

from podium import worlds
from podium.worlds.expression import Constant, Product, Sum, parse, reachable

HOSTILE = [
    "(" * 100_000 + "1" + ")" * 100_000,
    "(" * 90 + "1" + ")" * 90,
    "9" * 100_000,
    "9**9**9**9",
    "1+" * 50_000 + "1",
    "__import__('os').system('true')",
    "１+２",
    "٣+٤",
    "1\u202e+2",
    "\x00",
    "3 5",
    "3+",
    "-3",
    "()",
    "3(4)",
    "3//4",
    "1e9",
    "0x10",
    "\ud800",
    "answer: " * 10_000,
    "\n" * 100_000,
]


@pytest.mark.parametrize("name", worlds.EMBEDDED)
def test_hostile_answers_are_wrong_and_quick(name: str) -> None:
    world = worlds.get(name, level=2)
    task = world.task(0)
    world.reset(task).act("answer: 0")  # some worlds prepare what all their episodes share
    for text in HOSTILE:
        began = time.perf_counter()
        feedback = world.reset(task).act(f"answer: {text}")
        assert time.perf_counter() - began < 0.2
        assert feedback.reward <= 0
        assert len(feedback.info.get("answer", "")) <= 1000  # an agent that only attacks gives none


@pytest.mark.parametrize("text", HOSTILE)
def test_what_is_not_an_expression_is_none(text: str) -> None:
    assert parse(text) is None


@pytest.mark.parametrize(
    ("text", "value"),
    [("3*5+9", 24), ("(3+5)*2-1", 15), ("2-(3-5)", 4), ("2*(3-5)", -4), ("((7))", 7), (" 1 × 2 − 3 ", -1)],
)
def test_values_of_expressions(text: str, value: int) -> None:
    form = parse(text)
    assert form is not None
    assert form.value == value


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("3*5+9", "9+5*3"),
        ("2-(3-5)", "2-3+5"),
        ("(2-5)*(1-4)", "(4-1)*(5-2)"),
        ("2*(3*4)", "4*3*2"),
        ("1+(2+(3-4))", "3+2+1-4"),
        ("7-2*(3-5)", "7+2*(5-3)"),
    ],
)
def test_solutions_that_differ_in_order_alone_are_the_same(left: str, right: str) -> None:
    assert parse(left) == parse(right)


@pytest.mark.parametrize(("left", "right"), [("2*3+4", "2*(3+4)"), ("2+2", "2*2"), ("3*4+3*5", "3*(4+5)")])
def test_different_solutions_stay_different(left: str, right: str) -> None:
    assert parse(left) != parse(right)


def test_a_form_reads_back_from_its_text() -> None:
    for forms in reachable((2, 3, 7, 12)).values():
        for form in forms:
            assert parse(str(form)) == form


def test_everything_reachable_agrees_with_brute_force() -> None:
    """All ways to put numbers together two at a time, their texts parsed, are the forms that `reachable` lists."""
    numbers = (2, 3, 5, 9)
    texts = set()

    def combine(pool: list[str]) -> None:
        texts.update(pool)
        for i, a in enumerate(pool):
            for j, b in enumerate(pool):
                if i != j:
                    rest = [x for k, x in enumerate(pool) if k not in (i, j)]
                    for sign in "+-*":
                        combine([*rest, f"({a}{sign}{b})"])

    combine([str(n) for n in numbers])
    forms = {form for form in map(parse, texts) if form is not None and form.value > 0}
    usable = {f for f in forms if _fits_convention(f)}
    assert usable == {f for forms in reachable(numbers).values() for f in forms}


def _fits_convention(form: Constant | Product | Sum) -> bool:
    """Leaves out a factor that is zero: nothing above zero comes from it."""
    if isinstance(form, Constant):
        return True
    if isinstance(form, Product):
        return all(f.value != 0 and _fits_convention(f) for f in form.factors)
    return all(f.value != 0 and _fits_convention(f) for f in (*form.added, *form.taken))


@pytest.mark.parametrize(
    ("answer", "right"),
    [("3*8", True), ("8*3 = 24", True), ("8*3*1", False), ("12+12", False), ("3*8+2-2", False), ("24", False)],
)
def test_countdown_counts_the_numbers_it_gave(answer: str, right: bool) -> None:
    world = worlds.Countdown(level=1)
    task = worlds.Task("t", "make 24 from 3 8 2", data={"numbers": [3, 8, 2], "target": 24, "solution": "3*8"})
    assert world.grade(task, f"answer: {answer}").info["correct"] is right
