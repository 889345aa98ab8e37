"""Exercises: seeded, right and wrong as they say, short enough for the small models."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from podium.worlds.texts.exercise import Exercise, Response
from podium.worlds.texts.puzzles import UNSEEN_DOMAIN
from podium.worlds.texts.subjects import SUBJECTS
from tools.pretrain.new_dials import SUBJECT_DIALS

LEVELS = [(name, level) for name, subject in SUBJECTS.items() for level in subject.levels]
# What a wrong demonstration may still get right: a verdict for the longer attempt, a game's outcome, a sort that needed
# no swap, a decision that merit would have made too.
SOMETIMES_RIGHT = {"pair verdict", "prisoners", "sorting", "table rows"}
# Where even the best text is not always right: a game against anybody, advice to give up, a benign request refused, a
# decision with a planted prior.
SOMETIMES_WRONG = {"prisoners", "search advice", "vault defence", "table rows"}


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    from podium.policy import load

    return load("podium/tiny").tokenizer


def played(exercise: Exercise, turns: tuple[str, ...]) -> tuple[Response, str]:
    """The end of an exercise, and all of its text."""
    text = exercise.prompt
    for number in range(1, len(turns) + 1):
        response = exercise.respond(turns[:number])
        assert response.done == (number == len(turns))
        text += f"\n{turns[number - 1]}\n{response.text}"
    return response, text


@pytest.mark.parametrize(("name", "level"), LEVELS)
def test_right_demonstrations_are_right_and_wrong_ones_wrong(name: str, level: int) -> None:
    right, wrong = [], []
    for i in range(60):
        exercise = SUBJECTS[name].draw(Random(f"{name}/{level}/{i}"), level, "train")
        right.append(played(exercise, exercise.demonstrate(Random(i), 1.0))[0].right)
        wrong.append(played(exercise, exercise.demonstrate(Random(i), 0.0))[0].right)
    assert sum(right) == 60 or (name in SOMETIMES_WRONG and sum(right) > 30)
    assert sum(wrong) == 0 or (name in SOMETIMES_RIGHT and sum(wrong) < sum(right))


@pytest.mark.parametrize(("name", "level"), LEVELS)
def test_an_exercise_depends_on_its_seed_alone_and_fits_the_context(name: str, level: int, tokenizer: Any) -> None:
    texts = []
    for i in (0, 1, 2, 3, 3):
        exercise = SUBJECTS[name].draw(Random(i), level, "test")
        turns = exercise.demonstrate(Random(i), 0.5)
        texts.append(played(exercise, turns)[1])
        assert max(len(tokenizer.encode(turn, add_special_tokens=False)) for turn in turns) < SUBJECTS[name].max_tokens
        ids = tokenizer.encode(texts[-1], add_special_tokens=False)
        assert len(ids) + 3 * 2 * len(turns) < 700
        assert tokenizer.decode(ids) == texts[-1]
        assert texts[-1].isascii()
    assert texts[3] == texts[4]
    assert len(set(texts)) > 1


@pytest.mark.parametrize(("name", "level"), LEVELS)
def test_nonsense_gets_a_reply_or_is_wrong(name: str, level: int) -> None:
    for text in ("", "?", "answer:", "compare: 9 9", "ask: none", "verdict: C", "take: 99"):
        exercise = SUBJECTS[name].draw(Random(5), level, "train")
        response = exercise.respond((text,))
        assert not response.right
        assert response.done or response.text


def test_no_exercise_speaks_of_the_domain_that_is_left_out() -> None:
    for name, level in LEVELS:
        for i in range(20):
            exercise = SUBJECTS[name].draw(Random(i), level, "train")
            assert UNSEEN_DOMAIN not in exercise.prompt


def test_every_subject_has_a_dial_for_each_level() -> None:
    assert {name: len(dials) for name, dials in SUBJECT_DIALS.items()} == {
        name: len(subject.levels) for name, subject in SUBJECTS.items()
    }
