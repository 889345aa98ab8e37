"""Keys and doors: the rules, the solutions, and the exact values of any policy."""

from __future__ import annotations

import copy
from random import Random

import numpy as np
import pytest

from podium import worlds
from podium.core.build import Rollout, Turn
from podium.core.errors import PodiumError
from podium.core.serial import decode, encode
from podium.worlds.house import GOLD, TRINKETS, Exit, House, Place
from podium.worlds.keydoor import SIZES, KeyDoor, action_of, house_dynamics, oracle

each_level = pytest.mark.parametrize("level", KeyDoor.levels)


def play(world: KeyDoor, texts: list[str], number: int = 0, seed: int = 0) -> list[worlds.Feedback]:
    episode = world.reset(world.task(number), seed)
    return [episode.act(text) for text in texts]


# -- the world ---------------------------------------------------------------------------------------------------------


@each_level
def test_the_checker_finds_nothing(level: int) -> None:
    assert worlds.check_world(worlds.get("keydoor", level=level), tasks=3) == []


@each_level
def test_solutions_of_every_style_reach_the_gold_in_time(level: int) -> None:
    world = KeyDoor(level=level)
    for number in range(40):
        task = world.task(number, "test" if number % 2 else "train")
        for style in world.styles:
            episode = world.reset(task)
            history = [episode.act(text) for text in world.demonstrate(task, style)]
            assert [f.reward for f in history] == [0.0] * (len(history) - 1) + [1.0]
            assert [f.done for f in history] == [False] * (len(history) - 1) + [True]
            assert len(history) <= SIZES[level].horizon
            assert history[-1].info == {"correct": True, "answer": "gold", "valid": True, "progress": 1 / len(history)}
            assert sum(f.info["progress"] for f in history) == pytest.approx(1)


def test_styles_differ() -> None:
    world = KeyDoor(level=4)
    tasks = [world.task(i) for i in range(20)]
    assert all(len(world.demonstrate(t, "long")) == len(world.demonstrate(t, "short")) for t in tasks)
    for other in ("long", "alternative"):
        assert any(world.demonstrate(t, other) != world.demonstrate(t, "short") for t in tasks)
    with pytest.raises(PodiumError, match="Did you mean 'short'"):
        world.solve(tasks[0], "shrt")


# A house of two rooms. Its way is: take the key, open the door, go through it, take the gold: 4 actions.
ROOMS = House(1, {1: (Exit("east", 2, "red"),), 2: (Exit("west", 1, "red"),)}, {1: ("red key", "cup"), 2: (GOLD,)})


def walk(texts: list[str], **dials: float) -> list[worlds.Feedback]:
    """What happens in that house."""
    data = {"house": ROOMS, "horizon": 9, "slip": 0.0, **dials}
    episode = KeyDoor().reset(worlds.Task("rooms", "", data=data))
    return [episode.act(text) for text in texts]


def test_a_turn_is_paid_for_its_progress_and_pays_for_an_action_without_effect() -> None:
    texts = ["take cup", "go east", "take red key", "open east", "go east", "go west", "go east", "take gold"]
    history = walk(texts, turn_rewards=2.0, invalid_penalty=0.1)
    progress = [0, 0, 0.25, 0.25, 0.25, -0.25, 0.25, 0.25]  # of a way of 4 actions
    assert [f.info["progress"] for f in history] == progress
    # 2 times the progress, the price of the locked door, and 1 for the gold.
    assert [f.reward for f in history] == pytest.approx([0, -0.1, 0.5, 0.5, 0.5, -0.5, 0.5, 1.5])
    assert [f.reward for f in walk(texts)] == [0.0] * 7 + [1.0]


def test_exact_values_include_the_rewards_of_turns() -> None:
    data = {"house": ROOMS, "horizon": 9, "slip": 0.0, "turn_rewards": 2.0, "invalid_penalty": 0.1}
    task = worlds.Task("rooms", "", data=data)
    exact = house_dynamics(task)
    policy = {state: {"wait": 1.0} for state in exact.states}
    policy[exact.states[0]] = {"take red key": 1.0}
    # The key pays 2 · 1/4, then eight turns of waiting cost 0.1 each.
    assert exact.oracle(policy).values[0, 0] == pytest.approx(0.5 - 8 * 0.1)


def test_progress_is_a_column_where_it_is_measured() -> None:
    assert "turn.progress" not in KeyDoor().provides
    assert "turn.progress" in KeyDoor(progress=True).provides
    assert "turn.progress" in KeyDoor(turn_rewards=1.0).replace(level=2).provides
    assert "turn.progress" in worlds.get("lookup", progress=True).provides


def test_dials_of_turn_rewards_leave_the_houses_as_they_are() -> None:
    plain, paid = KeyDoor(level=3), KeyDoor(level=3, turn_rewards=1.0, invalid_penalty=0.1)
    assert [plain.task(i).prompt for i in range(5)] == [paid.task(i).prompt for i in range(5)]
    with pytest.raises(PodiumError, match="invalid_penalty"):
        KeyDoor(invalid_penalty=-1.0)


@each_level
def test_distances_are_the_lengths_of_shortest_ways(level: int) -> None:
    house = KeyDoor(level=level).task(0).data["house"]
    for place in list(house._distances)[:50]:
        assert house.distance(place) == (0 if GOLD in place.held else len(house.shortest(place)))


def test_levels_set_the_horizon_from_five_to_fifty_and_dials_change_it() -> None:
    assert [KeyDoor(level=level).dials.horizon for level in (1, 5)] == [5, 50]
    world = KeyDoor(level=1, rooms=4, keys=2, distractors=3, horizon=30)
    house = world.task(0).data["house"]
    items = [item for held in house.items.values() for item in held]
    assert len(house.exits) == 4
    assert sum(item.endswith(" key") for item in items) == 2
    assert sum(item in TRINKETS for item in items) == 3
    assert items.count(GOLD) == 1
    assert world.task(0).key == "keydoor-1-rooms=4-keys=2-distractors=3-horizon=30/train/0"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"level": 6}, "no level 6"),
        ({"slip": 1.5}, "slip = 1.5 is out of range"),
        ({"rooms": 1}, "rooms = 1 is out of range"),
        ({"rooms": 2.5}, "must be a whole number"),
        ({"rooms": 3, "keys": 3}, "set rooms to at least 4"),
        ({"colour": 1}, "no setting 'colour'"),
    ],
)
def test_settings_that_make_no_house_are_refused(settings: dict[str, float], message: str) -> None:
    with pytest.raises(PodiumError, match=message):
        worlds.get("keydoor", **settings)


def test_a_horizon_that_leaves_no_way_is_refused() -> None:
    with pytest.raises(PodiumError, match="leaves a way to the gold in 3 turns"):
        KeyDoor(level=2, horizon=3).task(0)


def test_a_lock_needs_its_key_and_stays_open() -> None:
    world = KeyDoor(level=1, distractors=0)
    task = world.task(0)
    take, opening, going, gold = world.demonstrate(task)
    lock = take.removeprefix("take ")
    said = [f.observation for f in play(world, [going, opening, take, opening, opening])]
    assert said[0].startswith(f"{going.removeprefix('go ')} is locked. room ")
    assert said[1].startswith(f"no {lock}. room ")
    assert said[2].endswith(f"items: none. have: {lock}.")
    assert "locked" not in said[3]
    assert said[4] == f"{going.removeprefix('go ')} is open. time is up."
    assert gold == "take gold"


@pytest.mark.parametrize(
    ("text", "remark"),
    [
        ("", ""),
        ("wait", ""),
        ("dance", "unknown action. "),
        ("go up", "no such door. "),
        ("take " + "x" * 10_000, "no such item here. "),
        ("answer: 0", "unknown action. "),
        ("\ud800", "unknown action. "),
    ],
)
def test_whatever_cannot_be_done_says_so_and_costs_a_turn(text: str, remark: str) -> None:
    world = KeyDoor(level=2)
    task = world.task(0)
    feedback = world.reset(task).act(text)
    assert feedback.observation == remark + task.prompt
    assert (feedback.reward, feedback.done, feedback.info["valid"]) == (0.0, False, False)
    assert feedback.state == world.reset(task).state


def test_an_action_is_the_last_line_in_plain_words() -> None:
    assert action_of("I need the key.\n\n  Action:  Take red  KEY. \n") == "take red key"
    assert action_of("`go east`") == "go east"
    assert action_of(" \n ") == "wait"


def test_states_recur_and_do_not_count_turns() -> None:
    world = KeyDoor(level=4)
    for number in range(10):
        house = world.task(number).data["house"]
        ways = [a for a in house.actions(Place(house.start)) if a.startswith("go ")]
        if ways:
            break
    back = {"north": "south", "south": "north", "east": "west", "west": "east"}[ways[0].removeprefix("go ")]
    there, here = play(world, [ways[0], f"go {back}"], number)
    assert here.state == world.reset(world.task(number)).state != there.state
    assert here.observation == world.task(number).prompt


def test_slips_depend_on_the_seed_and_are_as_frequent_as_asked() -> None:
    world = KeyDoor(level=4, slip=0.3)
    number = next(n for n in range(50) if any(a.startswith("go ") for a in _first_actions(world, n)))
    (going,) = [a for a in _first_actions(world, number) if a.startswith("go ")][:1]
    slips = ["you slip." in play(world, [going], number, seed)[0].observation for seed in range(1000)]
    assert np.mean(slips) == pytest.approx(0.3, abs=0.06)
    assert play(world, [going] * 5, number, 7) == play(world, [going] * 5, number, 7)


def _first_actions(world: KeyDoor, number: int) -> list[str]:
    house = world.task(number).data["house"]
    found: list[str] = house.actions(Place(house.start))
    return found


def test_a_solution_knows_the_slips_of_its_seed() -> None:
    world = KeyDoor(level=4, slip=0.2)
    for seed in range(5):
        texts = world.demonstrate(world.task(1), seed=seed)
        assert play(world, list(texts), 1, seed)[-1].info["correct"]


def test_copies_walk_alone_and_settings_survive_yaml() -> None:
    world = KeyDoor(level=3, slip=0.1, rooms=5)
    assert decode(encode(world)) == world
    episode = world.reset(world.task(0))
    other = copy.deepcopy(episode)
    other.act(world.demonstrate(world.task(0))[0])
    assert episode.state == world.reset(world.task(0)).state != other.state


def test_a_person_is_told_the_rules_and_plays() -> None:
    world = KeyDoor(level=1)
    texts = iter(world.demonstrate(world.task(0)))
    written: list[str] = []
    feedback = worlds.play(world, 0, lambda prompt: next(texts), written.append)
    assert feedback is not None
    assert feedback.info["correct"]
    assert written[0].startswith("Find the gold and take it within 5 turns.")
    assert written[-2] == "Reward 1. Right."


# -- the oracle --------------------------------------------------------------------------------------------------------

TASK = KeyDoor(level=2, slip=0.25).task(3)


def softmax(strength: float, task: worlds.Task = TASK) -> dict[str, dict[str, float]]:
    process = house_dynamics(task)
    table = process.softmax(strength)
    return {
        state: {action: table[i, j] for j, action in enumerate(process.actions) if table[i, j]}
        for i, state in enumerate(process.states)
    }


def outcomes(policy: dict[str, dict[str, float]], first: tuple[str, ...], count: int) -> float:
    """The share of episodes, in the world itself, that get the gold after these first actions."""
    rng = Random(len(first))
    world, won = KeyDoor(level=2, slip=0.25), 0
    for seed in range(count):
        episode = world.reset(TASK, seed)
        feedback = None
        script = list(first)
        while feedback is None or not feedback.done:
            row = policy[episode.state]
            action = script.pop(0) if script else rng.choices(list(row), list(row.values()))[0]
            feedback = episode.act(action)
        won += feedback.info["correct"]
    return won / count


@pytest.mark.parametrize("strength", [0.0, 0.7])
def test_values_are_what_episodes_of_the_world_come_to(strength: float) -> None:
    policy = softmax(strength)
    exact = oracle(TASK, policy)
    start = KeyDoor(level=2).reset(TASK).state
    count = 600
    spread = 4 * np.sqrt(0.25 / count)
    assert exact.value(start) == pytest.approx(outcomes(policy, (), count), abs=spread)
    for action in (*policy[start], "wait", "nonsense"):
        assert exact.action_value(start, action) == pytest.approx(outcomes(policy, (action,), count), abs=spread)


def test_walks_of_the_table_come_to_the_same_at_every_turn() -> None:
    exact = oracle(TASK, softmax(0.5))
    walks = exact.walks(200_000, np.random.default_rng(0))
    won = np.bincount(walks.rollout, weights=walks.reward, minlength=walks.count)[walks.rollout]
    process = exact.dynamics
    for turn in (0, 3, 6):
        for state in range(len(process.states)):
            at = (walks.turn == turn) & (walks.state == state)
            assert exact.visits[turn, state] == pytest.approx(at.sum() / walks.count, abs=0.006)
            for action in range(len(process.actions)):
                chosen = at & (walks.action == action)
                if chosen.sum() > 500:
                    q = exact.action_values(turn)[state, action]
                    assert q == pytest.approx(won[chosen].mean(), abs=4.5 * np.sqrt(0.25 / chosen.sum()))


def test_advantages_average_to_nothing_and_waiting_near_the_end_is_fatal() -> None:
    exact = oracle(TASK, softmax(0.5))
    for turn in range(exact.dynamics.horizon):
        mean = (exact.policy * (exact.action_values(turn) - exact.values[turn][:, None])).sum(1)
        np.testing.assert_allclose(mean, 0, atol=1e-12)
    last = exact.dynamics.horizon - 1
    np.testing.assert_array_equal(exact.action_values(last)[:, 0], 0)
    assert (np.diff(exact.values, axis=0) <= 1e-12).all()  # less time is never better


def test_a_perfect_policy_without_slips_has_value_one() -> None:
    world = KeyDoor(level=3)
    for number in range(5):
        task = world.task(number)
        exact = oracle(task, house_dynamics(task).softmax(1000.0))
        assert exact.value(world.reset(task).state) == pytest.approx(1.0)
        assert exact.dynamics.distances()[0] == len(world.demonstrate(task))


def test_the_gradient_is_that_of_the_value_of_the_start() -> None:
    process = house_dynamics(TASK)
    logits = np.where(process.softmax(0.0) > 0, 0.3 * np.random.default_rng(1).standard_normal((1,)), -np.inf)

    def policy(logits: np.ndarray) -> np.ndarray:
        weights = np.exp(logits)
        return weights / weights.sum(1, keepdims=True)

    exact = oracle(TASK, policy(logits)).gradient
    rng = np.random.default_rng(0)
    cells = np.argwhere(np.isfinite(logits))
    for state, action in cells[rng.choice(len(cells), 12, replace=False)]:
        step = np.zeros_like(logits)
        step[state, action] = 1e-5
        up, down = (oracle(TASK, policy(logits + s)).values[0, 0] for s in (step, -step))
        assert exact[state, action] == pytest.approx((up - down) / 2e-5, abs=1e-8)


def test_discounting_counts_the_turns() -> None:
    task = KeyDoor(level=2).task(0)
    length = len(KeyDoor(level=2).demonstrate(task))
    exact = oracle(task, house_dynamics(task).softmax(1000.0), gamma=0.9)
    assert exact.values[0, 0] == pytest.approx(0.9 ** (length - 1))


def test_a_recorded_rollout_gets_the_exact_advantage_of_each_turn() -> None:
    world, texts = KeyDoor(level=2, slip=0.25), ["wait", "look: nothing", "to the door:\nopen up"]
    exact, episode, turns = oracle(TASK, softmax(0.5)), world.reset(TASK), []
    for text in [*texts, *world.demonstrate(TASK)[:1]]:
        turns.append(Turn(ids=(), columns={"state": episode.state, "action": text}))
        episode.act(text)
    found = exact.credit(Rollout(TASK.key, turns))
    start = str(turns[0].columns["state"])
    for turn in range(3):
        expected = exact.action_value(start, "wait", turn) - exact.value(start, turn)
        assert found[turn] == pytest.approx(expected)
        assert found[turn] < 0
    assert found[3] > 0
    assert exact.credit(Rollout(TASK.key, [])) == []


def test_policies_that_are_none_are_refused() -> None:
    good = softmax(0.0)
    start = next(iter(good))
    for policy, message in (
        ({}, "add up to 0"),
        ({**good, start: {"wait": 0.5}}, "add up to 0.5"),
        ({**good, start: {"wait": 1.5, "go east": -0.5}}, "probabilities that add up to 1"),
        ({**good, "room 99": {"wait": 1.0}}, "no state 'room 99'"),
    ):
        with pytest.raises(PodiumError, match=message):
            oracle(TASK, policy)
    with pytest.raises(PodiumError, match="states times actions"):
        oracle(TASK, np.ones((2, 2)))
    with pytest.raises(PodiumError, match="Turns are numbered 0 to 9"):
        oracle(TASK, good).action_values(10)
