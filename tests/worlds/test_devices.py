"""Sorting by comparisons, and the calculator."""

from __future__ import annotations

from itertools import permutations

import pytest

from podium import worlds
from podium.core.errors import PodiumError
from podium.worlds.calculator import DOWN
from podium.worlds.sorting import Sorting, fewest_comparisons
from podium.worlds.texts.devices import sorted_out


def test_the_fewest_comparisons_are_those_of_the_best_decision_tree() -> None:
    assert [fewest_comparisons(n) for n in (2, 3, 4)] == pytest.approx([1, 8 / 3, 14 / 3])


def test_insertion_compares_less_than_bubbles_and_not_below_the_bound() -> None:
    world, counts = Sorting(level=3), {}
    for style in ("short", "insertion"):
        made = []
        for order in permutations(range(4)):
            task = world.task(0)
            episode = world.reset(type(task)(task.key, task.prompt, data={**task.data, "hidden": order}))
            turns = world.write(type(task)("", "", data={"hidden": order}), style, None, lambda: False)  # type: ignore[arg-type]
            made.append([episode.act(text) for text in turns][-1].info["comparisons"])
        counts[style] = sum(made) / len(made)
    assert counts["short"] == 6
    assert fewest_comparisons(4) < counts["insertion"] < 6


def test_the_prompt_and_the_replies_are_those_of_the_texts() -> None:
    from random import Random

    world = Sorting(level=2)
    task = world.task(0)
    assert task.prompt == sorted_out(Random(0), 2).prompt
    episode = world.reset(task)
    a, b, _ = task.data["hidden"]
    assert episode.act("compare: 1 2").observation == ("less" if a < b else "more")
    assert episode.act("swap: 1 2").observation == "swapped"
    assert episode.act("compare: 1 2").observation == ("more" if a < b else "less")
    wrong = episode.act("compare: 1 9")
    assert not wrong.info["valid"]
    assert wrong.info["comparisons"] == 2
    assert wrong.observation.startswith("error")


def test_an_answer_is_right_only_in_rising_order() -> None:
    world = Sorting()
    rising = [world.reset(t).act("answer: sorted").info["correct"] for t in map(world.task, range(40))]
    assert rising == [t.data["hidden"] == tuple(sorted(t.data["hidden"])) for t in map(world.task, range(40))]
    assert not world.reset(world.task(0)).act("answer: 7").info["correct"]


def test_a_budget_refuses_further_comparisons() -> None:
    world = Sorting(level=2, budget=1)
    episode = world.reset(world.task(0))
    assert episode.act("compare: 1 2").info["valid"]
    refused = episode.act("compare: 2 3")
    assert (refused.observation, refused.info["comparisons"]) == ("error: no more comparisons", 1.0)
    with pytest.raises(PodiumError, match="budget"):
        Sorting(budget=0)


@pytest.mark.parametrize("level", [1, 2, 3])
def test_the_calculator_computes_what_the_level_asks_for(level: int) -> None:
    world = worlds.get("calculator", level=level)
    for index in range(50):
        task = world.task(index)
        assert str(eval(task.prompt.removeprefix("calculate: "))) == task.data["answer"]


def test_a_calculator_that_is_down_is_asked_again() -> None:
    world = worlds.get("calculator", level=2, down=0.6)
    task = world.task(0)
    for seed in range(20):
        turns, episode = world.demonstrate(task, seed=seed), world.reset(task, seed)
        replies = [episode.act(text) for text in turns]
        if DOWN in [r.observation for r in replies] and replies[-1].done:
            assert replies[-1].info["correct"]
            return
    pytest.fail("no call failed")
