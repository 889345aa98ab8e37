"""The doctor names what is wrong with a run, and leaves healthy runs alone."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from podium.analysis.health import RULES, Course, diagnose, diagnose_seeds
from podium.analysis.health.rules_of_evaluation import tasks_needed
from tests.analysis.health.planted import PLANTED
from tests.analysis.health.recorded_runs import course_of, recorded

ILL, TUNING, HEALTHY = (recorded(name) for name in ("ill", "tuning", "healthy"))
LEARNS = "grpo on sums 2"  # the healthy run into which illnesses are planted


def _names(course: Course) -> set[str]:
    return {found.rule for found in diagnose(course)}


@cache
def _learning() -> Course:
    return course_of(TUNING[LEARNS])


@pytest.mark.parametrize("name", ILL)
def test_a_run_that_was_made_ill_is_diagnosed(name: str) -> None:
    assert _names(course_of(ILL[name])) == {ILL[name]["rule"]}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_illness_is_named_and_nothing_else_is(name: str) -> None:
    rule, plant = PLANTED[name]
    assert _names(plant(_learning())) == {rule}


def test_every_rule_has_been_planted() -> None:
    planted = {rule for rule, _ in PLANTED.values()} | {run["rule"] for run in ILL.values()}
    assert planted == {rule.name for rule in RULES}
    assert len(PLANTED) + len(ILL) >= 25


def test_there_are_twenty_healthy_runs_that_set_no_threshold() -> None:
    assert len(HEALTHY) >= 20
    settings = [(run["method"], run["settings"]) for run in TUNING.values()]
    assert not [name for name, run in HEALTHY.items() if (run["method"], run["settings"]) in settings]


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_run_gets_no_diagnosis(name: str) -> None:
    assert diagnose(course_of(HEALTHY[name])) == []


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_run_gets_no_warning_on_the_way(name: str) -> None:
    course = course_of(HEALTHY[name])
    for end in range(1, len(course.lines) + 1):
        assert diagnose(replace(course, lines=course.lines[:end])) == []


def test_a_diagnosis_says_what_was_seen_and_what_to_do() -> None:
    (found,) = diagnose(PLANTED["two in five answers are cut"][1](_learning()))
    assert found.seen == "40 % of the answers were cut at max_tokens = 80."
    assert found.mend == "podium train --config RUN/config.yaml --set max_tokens=160"
    assert found.text.startswith("truncation: 40 %")


def test_the_seed_that_went_wrong_is_named_among_the_others() -> None:
    def seed(number: int, end: float) -> Course:
        course = _learning()
        lines = [*course.lines[:-1], {**course.lines[-1], "eval.pass@1": end}]
        return replace(course, lines=lines, setting=replace(course.setting, seed=number, run=f"runs/{number}"))

    ends = [0.61, 0.58, 0.2, 0.63, 0.6]
    found = diagnose_seeds([seed(number, end) for number, end in enumerate(ends)])
    assert set(found) == {"runs/2"}
    assert found["runs/2"].rule == "diverged-seed"
    assert diagnose_seeds([seed(number, end) for number, end in enumerate(ends[:2])]) == {}
    assert diagnose_seeds([seed(number, 0.6 + 0.01 * number) for number in range(5)]) == {}


def test_half_the_difference_takes_four_times_the_tasks() -> None:
    # Two rates, each ± 0.1 by 100 tasks: their difference is ± 0.1414, so 0.1414 needs these 100 and 0.0707 needs 400.
    assert tasks_needed(100, 0.1, 0.1 * 2**0.5) == 100
    assert tasks_needed(100, 0.1, 0.05 * 2**0.5) == 400
