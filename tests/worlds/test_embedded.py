"""The worlds inside the package: questions, solutions, grades, dials."""

from __future__ import annotations

import copy
from collections import Counter

import pytest

from podium import worlds
from podium.core.errors import PodiumError
from podium.core.serial import decode, encode
from podium.worlds import Puzzle, Task

PUZZLES = {name: world for name, world in worlds.EMBEDDED.items() if issubclass(world, Puzzle)}
LEVELS = [(name, level) for name, world in PUZZLES.items() for level in world.levels]
each_level = pytest.mark.parametrize(("name", "level"), LEVELS)
each_world = pytest.mark.parametrize("name", PUZZLES)


def puzzle(name: str, **settings: object) -> Puzzle:
    world = worlds.get(name, **settings)
    assert isinstance(world, Puzzle)
    return world


@each_level
def test_the_checker_finds_nothing(name: str, level: int) -> None:
    assert worlds.check_world(puzzle(name, level=level), tasks=10) == []


@each_level
def test_solutions_of_every_style_are_right(name: str, level: int) -> None:
    world = puzzle(name, level=level)
    assert len(world.styles) >= 3
    for i in range(200):
        task = world.task(i, "test" if i % 2 else "train")
        for style in world.styles:
            feedback = world.grade(task, world.solve(task, style))
            assert feedback.reward == 1, (task, world.solve(task, style))
            assert feedback.info["correct"] is True
            assert feedback.done


@each_level
def test_a_step_that_goes_wrong_leads_to_a_wrong_answer(name: str, level: int) -> None:
    world = puzzle(name, level=level)
    wrong = [
        world.grade(world.task(i), world.attempt(world.task(i), style, right=0.0))
        for i in range(60)
        for style in world.styles
    ]
    assert sum(f.info["correct"] for f in wrong) <= 0.02 * len(wrong)
    assert all(f.info["answer"] for f in wrong)  # wrong, yet in the right form


@each_world
def test_attempts_are_right_as_often_as_asked(name: str) -> None:
    world = puzzle(name, level=3)
    tries = [world.attempt(world.task(i), style, right=0.3) for i in range(400) for style in world.styles]
    tasks = [world.task(i) for i in range(400) for _ in world.styles]
    share = sum(world.grade(t, a).info["correct"] for t, a in zip(tasks, tries, strict=True)) / len(tries)
    assert share == pytest.approx(0.3, abs=0.05)  # three standard errors of 1,200 draws are 0.04


@each_world
def test_the_styles_differ(name: str) -> None:
    world = puzzle(name, level=3)
    task = next(t for t in map(world.task, range(50)) if len({world.solve(t, s) for s in world.styles}) > 2)
    short, long = (world.solve(task, style) for style in ("short", "long"))
    assert len(long) > len(short)


def asked(task: Task) -> object:
    """What the question asks, whatever the order in which the prompt lists it."""
    if "numbers" in task.data:
        return task.data["target"], sorted(task.data["numbers"])
    if "findings" in task.data:
        return sorted(task.data["findings"]), sorted(task.data["options"])
    if task.domain in ("order", "paint"):
        return sorted(task.prompt.partition(": ")[2].replace(";", ",").split(", "))
    return task.prompt


@each_level
def test_a_test_question_never_occurs_in_training(name: str, level: int) -> None:
    world = puzzle(name, level=level)
    train, test = ({repr(asked(world.task(i, split))) for i in range(300)} for split in ("train", "test"))
    assert not train & test


@each_level
def test_tasks_depend_on_their_number_alone(name: str, level: int) -> None:
    first, second = puzzle(name, level=level), puzzle(name, level=level)
    assert [first.task(i) for i in range(20)] == [second.task(i) for i in reversed(range(20))][::-1]
    assert len({first.task(i).key for i in range(20)} | {first.task(i, "test").key for i in range(20)}) == 40
    assert first.task(3).level == level


@each_world
def test_levels_draw_different_tasks(name: str) -> None:
    assert puzzle(name, level=1).task(0).prompt != puzzle(name, level=2).task(0).prompt


@each_world
def test_wrong_answers_are_graded_wrong(name: str) -> None:
    world = puzzle(name, level=2)
    for i in range(50):
        task, other = world.task(i), world.task(i + 1)
        solution = world.solve(task)
        nothing = world.grade(task, "").info
        assert (nothing["correct"], nothing["answer"]) == (False, "")
        unmarked = solution.replace("answer:", "so:")
        assert not world.grade(task, unmarked).info["correct"], "an answer needs its line"
        assert not world.grade(task, f"{solution}\nanswer: zzz").info["correct"], "the last line counts"
        assert world.grade(task, f"answer: zzz\n{solution}").info["correct"]
        unique = "least" not in task.data  # there may be many right recommendations
        if unique and world.solve(other).splitlines()[-1] != solution.splitlines()[-1]:
            answer = world.solve(other).splitlines()[-1]
            assert world.grade(task, answer).info["correct"] == (
                world.grade(task, answer).info["answer"] == world.grade(task, solution).info["answer"]
            )


@each_world
def test_a_general_model_may_decorate_its_answer(name: str) -> None:
    world = puzzle(name, level=1)
    task = world.task(0)
    answer = world.solve(task).splitlines()[-1].removeprefix("answer: ")
    for text in (f"**Answer:** {answer}", f"Answer: {answer}.", f"  answer:  {answer}  ", f"## ANSWER: `{answer}`"):
        assert world.grade(task, text).info["correct"], text


@each_world
def test_instructions_explain_the_same_task(name: str) -> None:
    plain, explained = puzzle(name), puzzle(name, instructions=True)
    for i in range(5):
        assert explained.task(i).prompt.startswith(plain.task(i).prompt)
        assert "`answer:`" in explained.task(i).prompt
        assert explained.task(i).data == plain.task(i).data


def test_noise_turns_the_asked_share_of_rewards_and_says_so_nowhere_else() -> None:
    noisy, clean = puzzle("sums", noise=0.2), puzzle("sums")
    turned = 0
    for i in range(1000):
        task = clean.task(i)
        text = clean.solve(task) if i % 2 else "answer: -1"
        turned += noisy.grade(task, text).reward != clean.grade(task, text).reward
        assert noisy.grade(task, text) == noisy.grade(task, f"thinking\n{text}")  # fixed for a task and its answer
        assert noisy.grade(task, text).info == clean.grade(task, text).info
    assert turned / 1000 == pytest.approx(0.2, abs=0.04)


def test_spurious_rewards_ignore_what_is_right() -> None:
    task = puzzle("sums").task(0)
    right, wrong, none = puzzle("sums").solve(task), "answer: -1", "hello"
    assert [puzzle("sums", spurious="format").grade(task, t).reward for t in (right, wrong, none)] == [1, 1, 0]
    assert [puzzle("sums", spurious="wrong").grade(task, t).reward for t in (right, wrong, none)] == [0, 1, 0]
    coin = puzzle("sums", spurious="random")
    rewards = Counter(coin.reset(task, seed).act(right).reward for seed in range(1000))
    assert rewards[1.0] == pytest.approx(500, abs=50)
    assert coin.reset(task, 7).act(right) == coin.reset(task, 7).act(right)
    assert coin.grade(task, right).info["correct"] is True


def test_countdown_can_ask_for_a_number_of_solutions() -> None:
    for level in (1, 2, 3):
        for wanted in (1, 2, 4):
            world = worlds.get("countdown", level=level, solutions=wanted)
            assert isinstance(world, worlds.Countdown)
            assert [world.count(world.task(i)) for i in range(8)] == [wanted] * 8


def test_a_number_of_solutions_that_does_not_exist_is_refused() -> None:
    with pytest.raises(PodiumError, match="exactly 500 solutions"):
        puzzle("countdown", level=2, solutions=500).task(0)


def test_countdown_writes_each_of_its_solutions() -> None:
    world = worlds.Countdown(level=3, solutions=4)
    task = world.task(0)
    found = {world.grade(task, world.solve(task, "short", seed)).info["answer"] for seed in range(1, 5)}
    assert len(found) == 4


def test_rules_can_keep_to_one_domain() -> None:
    assert {puzzle("rules").task(i).domain for i in range(40)} == {"order", "paint", "lamps", "liars"}
    assert {puzzle("rules", domain="lamps").task(i).domain for i in range(10)} == {"lamps"}


def test_an_episode_copies_without_copying_the_world() -> None:
    world = puzzle("sums")
    episode = world.reset(world.task(0), seed=3)
    twin = episode.copy()
    assert twin.world is world  # type: ignore[attr-defined]
    assert twin.act("answer: 1") == episode.act("answer: 1")
    assert copy.deepcopy(world) is world


@each_world
def test_worlds_round_trip_as_data_and_compare_by_value(name: str) -> None:
    world = puzzle(name, level=2, noise=0.1)
    assert decode(encode(world)) == world
    assert eval(repr(world), vars(worlds)) == world


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("cuntdown", {}, "'countdown'"),
        ("sums", {"level": 9}, "its levels are 1, 2, 3, 4, 5"),
        ("sums", {"levle": 1}, "'level'"),
        ("sums", {"noise": 1.5}, "Sums.noise = 1.5"),
        ("sums", {"spurious": "randm"}, "'random'"),
        ("countdown", {"solutions": -1}, "solutions = -1"),
        ("countdown", {"solutions": 1.5}, "whole number"),
        ("rules", {"domain": "lamp"}, "'lamps'"),
        ("jsonl:", {}, "needs a file"),
        ("gym:", {}, "needs the name of a task"),
    ],
)
def test_misspelt_names_levels_and_dials_get_a_remedy(name: str, settings: dict[str, object], message: str) -> None:
    with pytest.raises(PodiumError) as error:
        worlds.get(name, **settings)
    assert message in str(error.value)


def test_unknown_styles_splits_and_numbers_are_refused() -> None:
    world = puzzle("sums")
    with pytest.raises(PodiumError, match="'short'"):
        world.solve(world.task(0), "shrt")
    with pytest.raises(PodiumError, match="'test'"):
        world.task(0, "tset")
    with pytest.raises(PodiumError, match="from 0"):
        world.task(-1)
