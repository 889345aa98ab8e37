"""Worlds of several turns in which one finds out before one answers: lookup, tools, clarify, sorting, calculator."""

from __future__ import annotations

import json
from typing import Any

import pytest

from podium import worlds
from podium.core.errors import PodiumError
from podium.policy import load
from podium.worlds import Feedback, Quest, Task
from podium.worlds.lookup import KNOWN

QUESTS = {name: world for name, world in worlds.EMBEDDED.items() if issubclass(world, Quest)}
LEVELS = [(name, level) for name, world in QUESTS.items() for level in world.levels]
each_level = pytest.mark.parametrize(("name", "level"), LEVELS)
each_world = pytest.mark.parametrize("name", QUESTS)


def quest(name: str, **settings: Any) -> Quest:
    world = worlds.get(name, **settings)
    assert isinstance(world, Quest)
    return world


def said(world: Quest, task: Task, *texts: str, seed: int = 0) -> Feedback:
    """What the world says to the last of these turns."""
    episode = world.reset(task, seed)
    for text in texts:
        feedback = episode.act(text)
    return feedback


def test_there_are_five() -> None:
    assert {"lookup", "tools", "clarify", "sorting", "calculator"} <= set(QUESTS)


@each_level
def test_the_checker_finds_nothing(name: str, level: int) -> None:
    assert worlds.check_world(quest(name, level=level), tasks=10) == []


@each_level
def test_solutions_of_every_style_are_right_and_say_nothing_unknown(name: str, level: int) -> None:
    world = quest(name, level=level)
    assert len(world.styles) >= 3
    for i in range(60):
        task = world.task(i, "test" if i % 2 else "train")
        for style in world.styles:
            episode, turns = world.reset(task), world.demonstrate(task, style)
            assert len(turns) <= world.max_turns
            feedbacks = [episode.act(text) for text in turns]
            assert [f.done for f in feedbacks] == [False] * (len(turns) - 1) + [True]
            assert all(f.info["valid"] for f in feedbacks)
            assert feedbacks[-1].info["correct"]
            assert feedbacks[-1].reward == 1
            assert world.reference(task) == turns[-1].rpartition("answer: ")[2]


@each_level
def test_a_step_that_goes_wrong_leads_to_a_wrong_answer_in_the_right_form(name: str, level: int) -> None:
    world = quest(name, level=level)
    for i in range(60):
        task = world.task(i)
        for style in world.styles:
            last = said(world, task, *world.attempt(task, style, right=0.0))
            assert last.done
            assert not last.info["correct"]
            assert last.info["answer"]


@each_level
def test_an_episode_fits_into_the_context_of_the_embedded_model(name: str, level: int) -> None:
    policy, world = load("podium/tiny"), quest(name, level=level)
    for i in range(20):
        for style in world.styles:
            turns = world.demonstrate(world.task(i), style)
            assert all(len(policy.written(text)) <= world.max_tokens for text in turns)
            assert len(policy.encode(world.conversation(world.task(i), turns))) < 400


@each_world
@pytest.mark.parametrize("text", ["", "   ", "what shall i do", "sing: a song", "\n" * 1000, "search", ":"])
def test_an_action_that_the_world_does_not_know_is_answered_by_how_to_act(name: str, text: str) -> None:
    world = quest(name)
    feedback = said(world, world.task(0), text)
    assert not feedback.done
    assert feedback.info["valid"] is False
    assert feedback.observation.startswith("error: say ")
    assert feedback.reward == 0


@each_world
def test_each_turn_before_the_answer_costs_what_the_dial_says(name: str) -> None:
    world = quest(name, level=2, cost=0.1)
    turns = world.demonstrate(world.task(3), "long")
    episode = world.reset(world.task(3))
    assert sum(episode.act(text).reward for text in turns) == pytest.approx(1 - 0.1 * (len(turns) - 1))


@each_level
def test_the_progress_of_a_solution_sums_to_one_and_nonsense_makes_none(name: str, level: int) -> None:
    world = quest(name, level=level, turn_rewards=2.0, invalid_penalty=0.25)
    for i in range(20):
        episode = world.reset(world.task(i))
        nonsense = episode.act("what shall i do")
        assert (nonsense.info["progress"], nonsense.reward) == (0, -0.25)
        history = [episode.act(text) for text in world.demonstrate(world.task(i))]
        assert sum(f.info["progress"] for f in history) == pytest.approx(1)
        assert sum(f.reward for f in history) == pytest.approx(1 + 2)


def test_progress_counts_the_steps_of_a_solution() -> None:
    world = quest("clarify", level=2, turn_rewards=3.0)
    task = world.task(0)
    hidden = task.data["hidden"]  # two of them, so that a solution has three steps
    other = next(slot for slot in ("size", "age", "colour", "place") if slot not in hidden)
    texts = [f"ask: {hidden[0]}", f"ask: {hidden[0]}", f"ask: {other}", f"ask: {hidden[1]}", "answer: nothing"]
    episode = world.reset(task)
    assert [episode.act(text).reward for text in texts] == pytest.approx([1, 0, 0, 1, 0])
    # Who guesses right without asking has done all steps at once.
    assert said(world, task, f"answer: {task.data['answer']}").reward == pytest.approx(1 + 3)


@each_world
def test_equal_states_have_equal_keys_and_actions_that_change_nothing_keep_them(name: str) -> None:
    world = quest(name, level=3)
    task = world.task(0)
    turns = world.demonstrate(task)
    episode, other = world.reset(task, 1), world.reset(task, 2)
    assert episode.state == other.state
    start = episode.state
    assert episode.act("hm").state == start
    assert episode.act(turns[0]).state == other.act(turns[0]).state != start
    assert episode.copy().act(turns[1]).state == other.act(turns[1]).state


@each_world
def test_a_recap_tells_what_the_last_observation_does_not(name: str) -> None:
    world = quest(name, level=QUESTS[name].levels[-1])
    task = world.task(2)
    episode = world.reset(task)
    seen = [episode.act(text).observation for text in world.demonstrate(task)[:2]]
    assert episode.recap
    assert not seen[1] or seen[1] not in episode.recap  # an answer is not replied to


# -- lookup ------------------------------------------------------------------------------------------------------------


def test_what_holds_everywhere_needs_no_search_and_the_rest_differs_from_task_to_task() -> None:
    world = quest("lookup", level=2, known=1.0)
    tasks = [world.task(i) for i in range(40)]
    assert all(t.data["answer"] in KNOWN.values() for t in tasks)
    ties: dict[str, set[str]] = {}
    for task in tasks:
        for fact, value in task.data["facts"].items():
            ties.setdefault(fact, set()).add(value)
    assert all(len(values) == 1 for fact, values in ties.items() if fact.startswith("capital"))
    assert all(len(values) > 1 for fact, values in ties.items() if fact.startswith("boss"))


def test_snippets_have_numbers_that_stay_and_distractors_beside_what_is_looked_for() -> None:
    world = quest("lookup", level=3, known=0.0, distractors=3)
    task = world.task(0)
    query = task.data["hops"][0]
    first, again = said(world, task, f"search: {query}"), said(world, task, f"search: {query}", f"search: {query}")
    assert first.observation == again.observation
    assert len(first.observation.splitlines()) == 4
    assert f"{query}: {task.data['facts'][query]}" in first.observation
    assert first.info["useful"] is True
    assert said(world, task, "search: boss of nobody at all").info["useful"] is False


def test_citations_and_the_evidence_that_they_should_name() -> None:
    world = quest("lookup", level=3)
    for i in range(20):
        task = world.task(i)
        last = said(world, task, *world.demonstrate(task, "cited"))
        assert set(last.info["cited"]) == set(last.info["evidence"])
        assert said(world, task, "answer: nobody").info["cited"] == ()


def test_a_search_that_misses_finds_it_when_asked_again() -> None:
    world = quest("lookup", level=1, known=0.0, miss=1.0)
    task = world.task(0)
    query = f"search: {task.data['hops'][0]}"
    assert said(world, task, query).info["useful"] is False
    assert said(world, task, query, query).info["useful"] is True
    assert said(world, task, *world.demonstrate(task)).info["correct"]


def test_judging_is_an_action_only_where_the_dial_says_so() -> None:
    plain, judging = quest("lookup", known=0.0), quest("lookup", known=0.0, judge=True)
    task = plain.task(0)
    query = f"search: {task.data['hops'][0]}"
    assert said(plain, task, query, "judge: yes").info["valid"] is False
    feedback = said(judging, task, query, "judge: yes")
    assert (feedback.info["valid"], feedback.info["judged"], feedback.info["useful"]) == (True, "yes", True)
    assert said(judging, task, "judge: yes").info["valid"] is False  # nothing to judge yet
    assert said(judging, task, query, "judge: perhaps").info["valid"] is False


# -- tools -------------------------------------------------------------------------------------------------------------


def call(name: object, arguments: object) -> str:
    return f"call: {json.dumps({'name': name, 'arguments': arguments})}"


def test_reference_calls_are_those_of_the_solution() -> None:
    for level in (1, 2, 3, 4):
        world = quest("tools", level=level)
        task = world.task(0)
        assert len(task.data["reference_calls"]) == level
        for style in world.styles:
            episode, made = world.reset(task), []
            for text in world.demonstrate(task, style):
                made += episode.act(text).info["calls"]
            key = str if style == "parallel" else None
            assert (sorted(made, key=key) if key else made) == (
                sorted(task.data["reference_calls"], key=key) if key else task.data["reference_calls"]
            )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("call: add 1 2", "error: say call:"),
        ("call: {", "error: say call:"),
        ("call: [1]", "error: say call:"),
        ("call: " + "[" * 10_000, "error: say call:"),
        (call(3, {}), "error: say call:"),
        (call("add", [1, 2]), "error: arguments must be"),
        (call("divide", {"a": 1, "b": 2}), "error: no tool divide"),
        (call("add", {"a": 1}), "error: add needs a and b"),
        (call("add", {"a": "1", "b": 2}), "error: a and b must be whole numbers"),
        (call("add", {"a": True, "b": 2}), "error: a and b must be whole numbers"),
        (call("multiply", {"a": 10**30, "b": 2}), "error: a and b must be whole numbers"),
        ('call: {"name": "add", "arguments": {"a": NaN, "b": 1}}', "error: a and b must be whole numbers"),
        (call("look", {"row": "moon", "column": "price"}), "error: no such row"),
        (call("look", {"row": ["apple"], "column": {}}), "error: no such row"),
    ],
)
def test_a_call_that_cannot_be_made_is_an_observation(text: str, words: str) -> None:
    world = quest("tools", level=2)
    feedback = said(world, world.task(0), text)
    assert feedback.observation.startswith(words)
    assert feedback.info["valid"] is False
    assert feedback.info["errors"] == 1
    assert not feedback.done


def test_several_calls_of_a_turn_have_a_result_each() -> None:
    world = quest("tools")
    text = "\n".join([call("add", {"a": 1, "b": 2}), "call: x", call("multiply", {"a": 3, "b": 4})])
    feedback = said(world, world.task(0), text)
    assert [line[:5] for line in feedback.observation.splitlines()] == ["3", "error", "12"]
    assert [c["name"] for c in feedback.info["calls"]] == ["add", "multiply"]


def test_calls_are_profiled_like_a_program() -> None:
    world = quest("tools", level=2, profile=True)
    task = world.task(0)
    *calls, answer = world.demonstrate(task)
    assert len(calls) == 2  # a cell and an operation
    right = said(world, task, *calls, answer).info
    assert [right[name] for name in ("parses", "interface_matches", "passed", "speedup", "coverage")] == [1, 1, 1, 1, 1]
    slow = said(world, task, calls[0], *calls, calls[1], answer).info  # four calls where two are enough
    assert (slow["speedup"], slow["coverage"]) == (0.5, 1)
    guess = said(world, task, answer).info
    assert (guess["correct"], guess["speedup"], guess["coverage"], guess["passed"]) == (True, 2, 0, 0)
    half = said(world, task, calls[0]).info
    assert (half["completed"], half["passed"], half["speedup"]) == (True, 0.5, 0)
    assert said(world, task, "call: look").info["parses"] is False
    unknown = said(world, task, call("fly", {})).info
    assert (unknown["parses"], unknown["interface_matches"], unknown["completed"]) == (True, False, False)
    assert "turn.coverage" not in quest("tools").provides


def test_a_tool_may_be_down() -> None:
    world = quest("tools", down=1.0)
    assert said(world, world.task(0), call("add", {"a": 1, "b": 2})).observation == "error: try again"


# -- clarify -----------------------------------------------------------------------------------------------------------


def test_the_prompt_leaves_out_what_the_user_has_in_mind() -> None:
    for level in (1, 2, 3, 4):
        world = quest("clarify", level=level)
        for i in range(20):
            task = world.task(i)
            hidden = [task.data["wish"][slot] for slot in task.data["hidden"]]
            assert len(hidden) == level
            assert not set(hidden) & set(task.prompt.split())


def test_who_does_not_mind_says_any_and_words_beyond_the_wish_are_wrong() -> None:
    world = quest("clarify", level=1)
    task = next(t for t in map(world.task, range(50)) if len(t.data["wish"]) < 4)
    free = next(slot for slot in ("size", "age", "colour", "place") if slot not in task.data["wish"])
    assert said(world, task, f"ask: {free}").observation == f"{free}: any"
    assert said(world, task, f"ask: {free}").info["told"] is False
    assert not said(world, task, f"answer: {task.data['answer']} tiny").info["correct"]
    assert said(world, task, f"answer: {' '.join(reversed(task.data['answer'].split()))}").info["correct"]


def test_part_of_the_wish_is_worth_part_of_the_reward_where_the_dial_says_so() -> None:
    world = quest("clarify", level=4, partial=True)
    task = world.task(0)
    words = task.data["answer"].split()
    assert said(world, task, f"answer: {' '.join(words[:3])}").reward == pytest.approx(3 / 5)
    assert said(world, task, f"answer: {' '.join(words[:3])} moon").reward == pytest.approx(2 / 5)
    assert said(world.replace(partial=False), task, f"answer: {' '.join(words[:3])}").reward == 0


def test_a_user_loses_patience_and_may_be_unsure() -> None:
    world = quest("clarify", patience=2, unsure=1.0)
    task = world.task(0)
    slot = task.data["hidden"][0]
    ask = f"ask: {slot}"
    assert said(world, task, ask).observation == "not sure"
    assert said(world, task, ask, ask).observation == f"{slot}: {task.data['wish'][slot]}"
    gone = said(world, task, ask, ask, ask)
    assert (gone.done, gone.observation, gone.info["correct"], gone.info["questions"]) == (True, "bye", False, 3)


@pytest.mark.parametrize(
    ("name", "settings"),
    [("lookup", {"miss": 2}), ("lookup", {"distractors": -1}), ("tools", {"down": -1}), ("clarify", {"patience": 0})],
)
def test_dials_out_of_range_are_refused(name: str, settings: dict[str, Any]) -> None:
    with pytest.raises(PodiumError, match=next(iter(settings))):
        worlds.get(name, **settings)


@each_world
def test_a_person_is_told_how_to_act_and_shown_a_solution(name: str) -> None:
    world = quest(name)
    turns, lines = iter(world.demonstrate(world.task(0))), []
    last = worlds.play(world, 0, lambda _: next(turns), lines.append)
    assert last is not None
    assert last.info["correct"]
    assert "answer:" in lines[0]
    assert any("Right." in line for line in lines)
