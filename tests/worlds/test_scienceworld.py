"""The bridge to ScienceWorld."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator

import pytest

from podium import worlds
from podium.collect.driver import Driver
from podium.core.errors import PodiumError
from podium.protocols.context import Window
from podium.protocols.sampling import Sampling
from podium.sampler.local import LocalSampler
from podium.strategies.requests import Recite, TaskRequest
from podium.worlds import ScienceWorld
from podium.worlds.adventure import Game
from tests.policy import tiny
from tests.worlds.processes import children, command, nothing_left

pytest.importorskip("scienceworld", reason="needs the extra `scienceworld`")
if shutil.which("java") is None:
    pytest.skip("needs a Java runtime", allow_module_level=True)


def get(name: str, **settings: object) -> ScienceWorld:
    world = worlds.get(name, **settings)
    assert isinstance(world, ScienceWorld)
    return world


@pytest.fixture(scope="module")
def find(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScienceWorld]:
    with nothing_left(tmp_path_factory.mktemp("engines")):
        world = get("scienceworld:find-living-thing", engines=2)
        yield world
        world.close()


def simulators() -> list[int]:
    return [pid for pid in children(os.getpid()) if "GatewayServer" in command(pid)]


def test_the_gold_path_wins_and_the_score_is_the_reward(find: ScienceWorld) -> None:
    task = find.task(0)
    episode = find.reset(task)
    feedback = [episode.act(said) for said in find.demonstrate(task)]
    assert sum(f.reward for f in feedback) == pytest.approx(1.0)
    assert feedback[-1].done
    assert feedback[-1].info["correct"] is True


def test_variations_are_split_as_the_package_does(find: ScienceWorld) -> None:
    assert (find.size("train"), find.size("test")) == (150, 75)
    numbers = [{find.task(i, split).data["spec"]["variation"] for i in range(3)} for split in ("train", "test")]
    assert not numbers[0] & numbers[1]
    with pytest.raises(PodiumError, match="has 75 test tasks"):
        find.task(75, "test")


def test_two_simulators_tell_the_same_story(find: ScienceWorld) -> None:
    task = find.task(3, "test")
    said = ["look around", "open door", "look at table", "pick up cup", "0", "inventory"]
    first, second = find.reset(task), find.reset(task)
    assert [first.act(text) for text in said] == [second.act(text) for text in said]
    assert len(simulators()) > 1


def test_a_copy_goes_its_own_way(find: ScienceWorld) -> None:
    task = find.task(0)
    episode = find.reset(task)
    first, second = find.demonstrate(task)[:2]
    told = episode.act(first)
    twin = episode.copy()
    assert twin.act(second).state != told.state
    assert episode.act("look around").state == told.state


@pytest.mark.parametrize("said", ["", "reset task", "dance on the ceiling"])
def test_what_is_no_action_changes_nothing(find: ScienceWorld, said: str) -> None:
    episode = find.reset(find.task(0))
    before = episode.state
    feedback = episode.act(said)
    assert feedback.info["valid"] is False
    assert (feedback.state, feedback.done, feedback.reward) == (before, False, 0.0)


def test_a_simulator_that_is_killed_ends_its_episode_with_the_reason_and_the_run_goes_on(
    find: ScienceWorld,
) -> None:
    policy = tiny.policy()
    driver = Driver(LocalSampler(policy), find, follow_up=policy.follow_up, written=policy.written)
    driver.context_length = 10_000  # nothing is sampled
    crashed: list[int] = []

    class Crashing(Game):
        def act(self, text: str) -> object:  # type: ignore[override]
            if text == "inventory" and not crashed:
                crashed.extend(simulators())
                for pid in crashed:
                    os.kill(pid, signal.SIGKILL)
            return super().act(text)

    def plan(number: int, texts: tuple[str, ...]) -> object:
        task = find.task(number)
        request = TaskRequest(task, number, Sampling(max_tokens=4), (0, number))
        (rollouts,) = yield [Recite(request, texts=texts, episode=Crashing(find, task), context=Window(0))]
        return rollouts

    (dead,) = driver.collect([plan(0, ("look around", "inventory"))])  # type: ignore[list-item]
    (alive,) = driver.collect([plan(1, ("look around", "inventory"))])  # type: ignore[list-item]
    assert crashed
    assert dead[0].columns["stop"] == "failed"
    assert "the scienceworld process" in dead[0].columns["failure"]
    assert alive[0].columns["failure"] == ""


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("scienceworld:boill", {}, "'boil'"),
        ("scienceworld:boil", {"turns": 5}, "no setting 'turns'"),
        ("scienceworld:boil", {"simplifications": "eazy"}, "'easy'"),
        ("scienceworld:boil", {"level": 2}, "level = 2"),
    ],
)
def test_unknown_tasks_and_settings_get_a_remedy(name: str, settings: dict[str, object], message: str) -> None:
    with pytest.raises(PodiumError) as error:
        worlds.get(name, **settings)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_without_java_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(PodiumError, match="needs a Java runtime"):
        worlds.get("scienceworld:boil")
