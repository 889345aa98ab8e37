"""Worlds as finite decision processes: they move as the worlds do, and their exact values are what comes of it."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from podium import worlds
from podium.core.build import Rollout, Turn
from podium.core.errors import PodiumError
from podium.worlds import Episode, KeyDoor, Lookup, Task, World
from podium.worlds.oracle import END, Array, Dynamics, Outcome

SETTINGS: list[tuple[str, dict[str, Any]]] = [
    *(("lookup", {"level": level}) for level in Lookup.levels),
    ("lookup", {"level": 3, "miss": 0.5, "judge": True, "cost": 0.1}),
    ("lookup", {"level": 4, "miss": 1.0, "distractors": 0}),
    ("lookup", {"level": 3, "known": 1.0, "distractors": 6}),
    ("keydoor", {"level": 2}),
    ("keydoor", {"level": 3, "slip": 0.3}),
]


@pytest.mark.parametrize(("name", "settings"), SETTINGS)
def test_the_process_moves_as_the_world_does(name: str, settings: dict[str, Any]) -> None:
    world, rng = worlds.get(name, **settings), Random(0)
    for number in range(3):
        task = world.task(number)
        process = world.dynamics(task)
        for seed in range(12):
            _walk_both(process, world.reset(task, seed), rng)


def _walk_both(process: Dynamics, episode: Episode, rng: Random) -> None:
    state = 0
    for turn in range(process.horizon):
        assert process.states[state] == episode.state
        action = rng.randrange(len(process.actions))
        feedback = episode.act(process.actions[action])
        found = process.state(feedback.state) if feedback.state in process.states else END
        likely = process.chance[state, action] > 0
        ends = process.follows[state, action][likely].tolist()
        assert found in ends
        assert feedback.reward == pytest.approx(process.reward[state, action][likely][ends.index(found)])
        assert feedback.done >= (found == END)
        assert feedback.done <= (found == END or turn + 1 == process.horizon)
        if feedback.done:
            return
        state = found


@pytest.mark.parametrize("name", ["lookup", "keydoor"])
@pytest.mark.parametrize("gamma", [1.0, 0.8])
def test_values_are_the_sum_over_all_that_can_happen(name: str, gamma: float) -> None:
    world = Brief(level=2, cost=0.05) if name == "lookup" else KeyDoor(level=1)
    task = world.task(1)
    process = world.dynamics(task)
    policy = process.softmax(0.7)
    exact = process.oracle(policy, gamma)

    def returns(episode: Episode, turn: int) -> float:
        """What follows on average, by every way that an episode of the world can go."""
        total, row = 0.0, policy[process.state(episode.state)]
        for action in np.flatnonzero(row):
            after = episode.copy()
            feedback = after.act(process.actions[action])
            over = feedback.done or turn + 1 == process.horizon
            later = 0.0 if over else returns(after, turn + 1)
            total += row[action] * (feedback.reward + gamma * later)
        return total

    start = world.reset(task)
    assert exact.values[0, 0] == pytest.approx(returns(start, 0), abs=1e-12)
    for action in (0, 3, len(process.actions) - 1):
        after = start.copy()
        feedback = after.act(process.actions[action])
        later = 0.0 if feedback.done else returns(after, 1)
        assert exact.action_values(0)[0, action] == pytest.approx(feedback.reward + gamma * later, abs=1e-12)


class Brief(Lookup):
    """Questions that have to be answered in three turns."""

    max_turns = 3


SAMPLES = 8_000
FOUND = 0.012  # nearly three standard errors of a mean of so many episodes: an error of 0.02 is found


@pytest.mark.parametrize(
    ("name", "settings", "strength"),
    [
        ("lookup", {"level": 3}, 2.5),
        ("lookup", {"level": 2, "miss": 0.5, "judge": True, "cost": 0.02}, 2.5),
        ("keydoor", {"level": 2, "slip": 0.25}, 2.0),
    ],
)
def test_values_are_what_episodes_of_the_world_come_to(
    name: str, settings: dict[str, Any], strength: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, search = dict[tuple[str, bool], list[str]](), Lookup.snippets

    def remembered(self: Lookup, task: Task, query: str, hit: bool) -> list[str]:
        if (query, hit) not in found:
            found[query, hit] = search(self, task, query, hit)
        return found[query, hit]

    monkeypatch.setattr(Lookup, "snippets", remembered)  # which makes thousands of episodes twice as fast
    world = worlds.get(name, **settings)
    task = world.task(2)
    process = world.dynamics(task)
    exact = process.oracle(process.softmax(strength))
    steps, totals = _played(world, task, process, exact.policy)
    assert totals.std() / np.sqrt(SAMPLES) < FOUND / 2.5
    assert exact.values[0, 0] == pytest.approx(totals.mean(), abs=FOUND)
    turn, state, action, ahead = steps.T
    checked = 0
    for now, at, chosen in {(int(t), int(s), int(a)) for t, s, a in steps[:, :3]}:
        same = ahead[(turn == now) & (state == at) & (action == chosen)]
        if len(same) >= 100:
            q = exact.action_values(now)[at, chosen]
            assert q == pytest.approx(same.mean(), abs=4.5 * max(same.std(), 0.01) / np.sqrt(len(same)))
            checked += 1
    assert checked > 15


def _played(world: World, task: Task, process: Dynamics, policy: Array) -> tuple[Array, Array]:
    """[step, (turn, state, action, reward to come)] of episodes of the world itself, and their total rewards."""
    rng = np.random.default_rng(0)
    bounds, steps, totals = policy.cumsum(1), [], []
    for seed in range(SAMPLES):
        episode, taken = world.reset(task, seed), []
        for turn in range(process.horizon):
            state = process.state(episode.state)
            action = int(np.searchsorted(bounds[state], rng.random() * bounds[state, -1], side="right"))
            feedback = episode.act(process.actions[action])
            taken.append((turn, state, action, feedback.reward))
            if feedback.done:
                break
        rewards = [step[-1] for step in taken]
        steps += [(*step[:3], sum(rewards[i:])) for i, step in enumerate(taken)]
        totals.append(sum(rewards))
    return np.array(steps), np.array(totals)


# -- lookup ------------------------------------------------------------------------------------------------------------


def test_who_has_not_found_the_answer_cannot_prefer_it() -> None:
    world = Lookup(level=3, known=0.0)
    task = world.task(0)
    process = world.dynamics(task)
    policy = process.softmax(2.0)
    answers = [process.actions.index(a) for a in process.actions if a.startswith("answer:")]
    right = process.action(f"answer: {task.data['answer']}")
    assert np.ptp(policy[0, answers]) == 0
    found = process.state(f"{task.key}/0,1,2")
    assert policy[found, right] == pytest.approx(np.exp(2.0) * policy[found, 0])
    assert policy[found, right] == policy[found].max()
    assert process.actions[policy[0].argmax()] == f"search: {task.data['hops'][0]}"


def test_nobody_searches_for_whom_they_have_not_heard_of() -> None:
    world = Lookup(level=2, known=0.0)
    task = world.task(0)
    process = world.dynamics(task)
    policy = process.softmax(0.0)
    tried = {process.actions[a].rpartition(" ")[2] for a in np.flatnonzero(policy[0]) if "of" in process.actions[a]}
    assert tried == {task.data["start"]}
    second = process.action(f"search: {task.data['hops'][1]}")
    assert policy[0, second] == 0 < policy[process.state(f"{task.key}/0"), second]


def test_a_capital_is_known_without_a_search() -> None:
    world = Lookup(level=1, known=1.0)
    task = world.task(0)
    process = world.dynamics(task)
    assert process.actions[process.softmax(1.0)[0].argmax()] == f"answer: {task.data['answer']}"


def test_a_strong_policy_is_right_and_a_lucky_guess_is_worth_as_much() -> None:
    world = Lookup(level=4)
    task = world.task(0)
    exact = world.dynamics(task).oracle(world.dynamics(task).softmax(1000.0))
    assert exact.values[0, 0] == pytest.approx(1.0)
    guess = f"answer: {task.data['answer']}"
    assert exact.action_value(task.key, guess) == 1.0
    assert exact.action_value(task.key, "answer: unknown") == 0.0


def test_a_missed_search_and_a_judgement_that_is_due_are_states_of_their_own() -> None:
    world = Lookup(level=2, known=0.0, miss=1.0, judge=True)
    task = world.task(0)
    first, episode = task.data["hops"][0], world.reset(task)
    said = [episode.act(text).state for text in (f"search: {first}", "judge: no", f"search: {first}", "judge: yes")]
    assert [state.removeprefix(task.key) for state in said] == ["/0?,judge", "/0?", "/0,judge", "/0"]


def test_recorded_texts_are_read_as_the_world_reads_them() -> None:
    world = Lookup(level=2)
    task = world.task(0)
    exact = world.dynamics(task).oracle(world.dynamics(task).softmax(1.0))
    first = task.data["hops"][0]
    for text, action in (
        (f"i need it\n  Search:  {first.upper()} ", f"search: {first}"),
        (f"cite: 1\n**answer:** {task.data['answer']}.", f"answer: {task.data['answer']}"),
        ("answer: the moon", "answer: unknown"),
        ("hm", "wait"),
        ("", "wait"),
    ):
        rollout = Rollout(task.key, [Turn(ids=(), columns={"state": task.key, "action": text})])
        assert exact.credit(rollout) == [exact.action_value(task.key, action) - exact.value(task.key)]
    with pytest.raises(PodiumError, match="'search: the moon' is not a search for a fact"):
        exact.dynamics.action("search: the moon")


# -- the mechanism -----------------------------------------------------------------------------------------------------


def test_a_world_of_your_own_says_what_its_actions_come_to() -> None:
    """A coin is thrown for a reward of 3, at 1 a throw; one may stop."""
    process = Dynamics.explore(
        "open", ["wait", "throw", "stop"], lambda _: {"throw": COIN, "stop": [Outcome(None)]}, horizon=2
    )
    assert process.states == ("open",)
    exact = process.oracle({"open": {"throw": 1.0}})
    assert exact.values[:, 0].tolist() == [1.0 + 0.5 * 1.0, 1.0, 0.0]
    assert exact.action_value("open", "stop") == 0.0
    assert process.distances().tolist() == [1.0]
    assert process.softmax(1.0)[0].argmax() == 1
    walks = exact.walks(20_000, np.random.default_rng(0))
    assert set(walks.reward[walks.follows == END]) == {3.0}
    assert walks.reward.sum() / walks.count == pytest.approx(1.5, abs=0.06)


COIN: list[Outcome[str]] = [Outcome(None, 3.0, 0.5), Outcome("open", -1.0, 0.5)]


def test_worlds_without_exact_values_say_so() -> None:
    with pytest.raises(PodiumError, match="exact values of the world 'sums' are not known"):
        worlds.get("sums").dynamics(worlds.get("sums").task(0))
