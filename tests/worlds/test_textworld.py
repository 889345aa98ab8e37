"""The bridge to TextWorld."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from podium import worlds
from podium.core.errors import PodiumError
from podium.worlds import TextWorld
from tests.worlds.processes import children, nothing_left

pytest.importorskip("textworld", reason="needs the extra `textworld`")


def get(name: str, **settings: object) -> TextWorld:
    world = worlds.get(name, **settings)
    assert isinstance(world, TextWorld)
    return world


@pytest.fixture(scope="module")
def coin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TextWorld]:
    with nothing_left(tmp_path_factory.mktemp("engines")):
        world = get("textworld:coin", level=2, engines=2)
        yield world
        world.close()


def test_the_walkthrough_wins_and_the_score_is_the_reward(coin: TextWorld) -> None:
    task = coin.task(0)
    episode = coin.reset(task)
    feedback = [episode.act(command) for command in coin.demonstrate(task)]
    assert sum(f.reward for f in feedback) == 1.0
    assert feedback[-1].done
    assert feedback[-1].info["correct"] is True


def test_the_prompt_is_the_first_scene_and_names_the_commands(coin: TextWorld) -> None:
    prompt = coin.task(0).prompt
    assert "coin" in prompt
    assert "$" not in prompt  # the banner
    assert "commands: " in prompt
    assert "inventory, look" in prompt


def test_tasks_are_the_same_in_every_process(coin: TextWorld) -> None:
    again = get("textworld:coin", level=2, engines=1)
    assert again.task(0) == coin.task(0)
    again.close()


def test_a_game_repeats_and_a_copy_goes_its_own_way(coin: TextWorld) -> None:
    task = coin.task(0)
    first, second = coin.demonstrate(task)[:2]
    episode = coin.reset(task)
    told = episode.act(first)
    twin = episode.copy()
    assert episode.act("look").state == told.state
    assert twin.act(second).state != told.state
    assert coin.reset(task).act(first) == told


@pytest.mark.parametrize("said", ["", "quit", "restart", "look. undo", "dance on the ceiling"])
def test_what_is_no_action_changes_nothing(coin: TextWorld, said: str) -> None:
    episode = coin.reset(coin.task(0))
    before = episode.state
    feedback = episode.act(said)
    assert feedback.info["valid"] is False
    assert (feedback.state, feedback.done, feedback.reward) == (before, False, 0.0)


def test_no_held_out_game_begins_as_one_of_training(coin: TextWorld) -> None:
    train, test = ({coin.task(i, split).prompt for i in range(2)} for split in ("train", "test"))
    assert not train & test


def test_a_process_that_is_killed_ends_the_episode_with_the_reason(coin: TextWorld) -> None:
    episode = coin.reset(coin.task(0))
    for pid in children(os.getpid()):
        os.kill(pid, signal.SIGKILL)
    with pytest.raises(PodiumError, match=r"the textworld process \d+ has died with exit code -9"):
        episode.act("look")
    assert coin.reset(coin.task(0)).act("look").info["valid"] is True  # the next one gets another process


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("textworld:coins", {}, "'coin'"),
        ("textworld:coin", {"level": 301}, "levels 1 to 300"),
        ("textworld:cooking", {"level": 2}, "one level, and dials"),
        ("textworld:cooking", {"recip": 2}, "'recipe'"),
        ("textworld:cooking", {"go": 2}, "go = 2 is not one of 1, 6, 9, 12"),
        ("textworld:cooking", {"cook": 1}, "cook = 1 is not one of False, True"),
        ("textworld:cooking", {"take": 2}, "at most recipe"),
        ("textworld:coin", {"goal": "breif"}, "'brief'"),
        ("textworld:coin", {"engine": 2}, "no setting 'engine'"),
    ],
)
def test_unknown_games_and_settings_get_a_remedy(name: str, settings: dict[str, object], message: str) -> None:
    with pytest.raises(PodiumError) as error:
        worlds.get(name, **settings)
    assert message in str(error.value)
    assert "\n" not in str(error.value)
