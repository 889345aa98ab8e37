"""Games of other packages, with an engine made up for the purpose: scores, copies, limits, and what is left behind."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

from podium import worlds
from podium.collect.driver import Driver
from podium.core.batch import Batch
from podium.core.build import Rollout
from podium.core.errors import PodiumError
from podium.protocols.sampling import Sampling
from podium.protocols.world import Task
from podium.sampler.local import LocalSampler
from podium.strategies import Sample
from podium.strategies.requests import Recite, TaskRequest
from podium.training.metrics import Metrics
from podium.worlds.adventure import Adventure, command_of
from podium.worlds.engine import Pool
from tests.policy import tiny


class Toy:
    """A corridor: `go` leads on, three of them win; `trap` fails, `die` ends the engine, `hang` does not answer."""

    running: ClassVar[set[Toy]] = set()
    most: ClassVar[int] = 0

    def __init__(self) -> None:
        self.alive, self.place, self.asked = True, 0, 0
        self.freed = threading.Event()
        Toy.running.add(self)
        Toy.most = max(Toy.most, len(Toy.running))

    def ask(self, do: str, **request: Any) -> dict[str, Any]:
        self.asked += 1
        if not self.alive:
            raise PodiumError("the engine has died")
        if do == "open":
            self.place = request["spec"].get("start", 0)
        command = request.get("command", "")
        if command == "about":
            return {"text": "", "valid": False}
        if command == "hang":
            self.freed.wait(5)
        if command in ("die", "hang"):
            self.kill()
            raise PodiumError("the engine has died")
        self.place = 0 if command == "trap" else self.place + (command == "go")
        return {
            "text": f"room {self.place}",
            "score": self.place / 3,
            "done": command == "trap" or self.place == 3,
            "won": self.place == 3,
            "state": str(self.place),
            "valid": command in ("go", "trap", "look"),
            "commands": ["go", "look"],
        }

    def stop(self) -> None:
        self.kill()

    def kill(self) -> None:
        self.alive = False
        self.freed.set()
        Toy.running.discard(self)


class Corridor(Adventure):
    """The corridor, with commands that the tasks say by themselves."""

    name = "corridor"
    package = "json"  # which is always there
    max_tokens = 4

    def start(self, folder: str) -> Toy:
        return Toy()

    def make(self, index: int, split: str) -> Task:
        return Task(f"corridor/{split}/{index}", self.prompt("room 0"), data={"spec": {"task": index}})

    def walkthrough(self, task: Task) -> tuple[str, ...]:
        return ("go", "go", "go")


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    before = threading.active_count()
    Toy.running, Toy.most = set(), 0
    yield
    assert not Toy.running
    deadline = time.monotonic() + 5
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() == before


def driver(world: Adventure, **settings: Any) -> Driver:
    policy = tiny.policy()
    return Driver(LocalSampler(policy), world, follow_up=policy.follow_up, written=policy.written, **settings)


def recited(world: Adventure, *texts: str, copies: int = 1, **settings: Any) -> list[Rollout]:
    """Episodes in which these texts are said."""
    sampling = Sampling(max_tokens=4)
    requests = [TaskRequest(world.task(i), i, sampling, (0, i)) for i in range(copies)]

    def plan(request: TaskRequest) -> Any:
        (rollouts,) = yield [Recite(request, texts=texts)]
        return rollouts

    try:
        groups = driver(world, **settings).collect([plan(request) for request in requests])
    finally:
        world.close()
    return [rollout for group in groups for rollout in group]


def test_the_rewards_of_the_turns_add_up_to_the_score() -> None:
    (rollout,) = recited(Corridor(), "go", "look", "go", "go")
    assert [turn.columns["reward"] for turn in rollout.turns] == pytest.approx([1 / 3, 0, 1 / 3, 1 / 3])
    assert rollout.columns["reward"] == pytest.approx(1.0)
    assert (rollout.columns["score"], rollout.columns["correct"], rollout.columns["answer"]) == (1.0, True, "won")


def test_what_a_task_begins_with_is_not_earned() -> None:
    world = Corridor()
    episode = world.reset(Task("later", "room 1", data={"spec": {"start": 1}}))
    feedback = [episode.act(said) for said in ("look", "go", "go")]
    assert [f.reward for f in feedback] == pytest.approx([0, 1 / 3, 1 / 3])
    assert feedback[-1].info["score"] == 1.0
    world.close()


def test_a_failed_game_takes_back_what_was_earned() -> None:
    (rollout,) = recited(Corridor(), "go", "trap")
    assert rollout.columns["reward"] == pytest.approx(0.0)
    assert (rollout.columns["correct"], rollout.columns["answer"]) == (False, "lost")


@pytest.mark.parametrize(
    ("said", "answered"), [("", "Write a command."), ("about", "That is no command"), ("fly", "room")]
)
def test_what_is_no_action_changes_nothing_and_says_so(said: str, answered: str) -> None:
    world = Corridor()
    episode = world.reset(world.task(0))
    episode.act("go")
    feedback = episode.act(said)
    assert feedback.observation.startswith(answered)
    assert (feedback.done, feedback.state, feedback.reward) == (False, "1", 0.0)
    assert feedback.info["valid"] is False
    world.close()


def test_commands_are_named_where_they_are_wanted() -> None:
    for wanted in (True, False):
        world = Corridor(commands=wanted)
        episode = world.reset(world.task(0))
        assert ("commands: go, look" in episode.act("go").observation) is wanted
        world.close()


def test_a_copy_goes_its_own_way() -> None:
    world = Corridor()
    episode = world.reset(world.task(0))
    episode.act("go")
    twin = episode.copy()
    assert len(Toy.running) == 1  # a copy that nobody uses costs nothing
    assert twin.act("go").state == "2"
    assert episode.act("look").state == "1"
    episode.close()
    assert episode.act("go").state == "2"  # and one that was closed can be taken up again
    world.close()


def test_the_checker_finds_nothing_but_the_equal_prompts() -> None:
    world = Corridor()
    assert [f for f in worlds.check_world(world, tasks=2, turns=10) if "occur in training" not in f] == []
    world.close()


def test_no_more_episodes_are_under_way_than_there_are_engines() -> None:
    world = Corridor(engines=2)
    rollouts = recited(world, "go", "go", "go", copies=9)
    assert all(rollout.columns["correct"] for rollout in rollouts)
    assert Toy.most <= 3  # one makes tasks


def test_an_engine_that_dies_ends_its_episode_with_the_reason_and_the_others_go_on() -> None:
    world = Corridor(engines=2)
    sampling = Sampling(max_tokens=4)
    said = [("go", "die", "go"), ("go", "go", "go"), ("go", "go", "go")]
    requests = [TaskRequest(world.task(i), i, sampling, (0, i)) for i in range(3)]

    def plan(request: TaskRequest) -> Any:
        (rollouts,) = yield [Recite(request, texts=said[request.group])]
        return rollouts

    rollouts = [r for group in driver(world).collect([plan(request) for request in requests]) for r in group]
    world.close()
    first, *others = rollouts
    assert first.columns["stop"] == "failed"
    assert "the engine has died" in first.columns["failure"]
    assert first.columns["reward"] == pytest.approx(1 / 3)  # what was earned before counts
    assert all(r.columns["correct"] and not r.columns["failure"] for r in others)
    metrics = Metrics()
    metrics.count_sampled(Batch.from_rollouts(rollouts))
    assert metrics.line(1)["failures"] == 1


def test_an_engine_that_hangs_is_ended() -> None:
    (rollout,) = recited(Corridor(), "go", "hang", "go", act_limit_s=0.1)
    assert "did not answer within 0.1 s" in rollout.columns["failure"]


def test_an_engine_that_cannot_start_is_a_failure_of_its_episodes() -> None:
    class Broken(Corridor):
        def start(self, folder: str) -> Toy:
            raise PodiumError("no such machine")

    (rollout,) = recited(Broken(), "go")
    assert "no such machine" in rollout.columns["failure"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_nothing_is_left_when_the_run_ends_in_the_middle(error: type[BaseException]) -> None:
    world = Corridor(engines=2)
    at = driver(world)
    polls = 0

    def poll() -> Any:
        nonlocal polls
        polls += 1
        if polls > 3:
            raise error
        return LocalSampler.poll(at.sampler)  # type: ignore[arg-type]

    at.sampler.poll = poll  # type: ignore[method-assign]
    requests = [TaskRequest(world.task(i), i, Sampling(max_tokens=4), (0, i)) for i in range(3)]
    with pytest.raises(error):
        at.collect([Sample(n=2).plan(request) for request in requests])
    assert not [engine for engine, lent in world.pool._engines.items() if lent]
    world.close()


def test_a_pool_that_is_forgotten_ends_its_engines() -> None:
    pool = Pool(lambda folder: Toy(), 2, 1.0)
    pool.lend()
    assert Toy.running
    del pool


def test_a_full_pool_says_what_to_change() -> None:
    pool = Pool(lambda folder: Toy(), 1, 0.05)
    pool.lend()
    with pytest.raises(PodiumError, match="all 1 engines are in use"):
        pool.lend()
    pool.close()


def test_a_dead_engine_is_replaced() -> None:
    pool = Pool(lambda folder: Toy(), 1, 0.05)
    first = pool.lend()
    first.kill()
    pool.give_back(first)
    assert pool.lend() is not first
    pool.close()


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("go north", "go north"),
        ("I see a door.\n> Action: open  door.", "open door"),
        ("**take coin**\n\n", "take coin"),
        ("command: `look`", "look"),
        (" \n ", ""),
    ],
)
def test_the_last_line_is_the_command(text: str, command: str) -> None:
    assert command_of(text) == command


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"engines": 0}, "engines = 0"), ({"max_turns": 0}, "max_turns = 0"), ({"max_turns": 2.5}, "whole number")],
)
def test_settings_out_of_range_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(PodiumError, match=message):
        Corridor(**settings)


def test_a_missing_package_is_named_with_its_extra() -> None:
    class Missing(Corridor):
        name = "far"
        package = "no_such_package_anywhere"

    with pytest.raises(PodiumError, match=r"far: needs no_such_package_anywhere: pip install 'podium-rl\[far\]'"):
        Missing()


class Failing(Toy):
    """Answers while it is idle, and dies of the first game that it is to open."""

    def ask(self, do: str, **request: Any) -> dict[str, Any]:
        if do == "open":
            self.kill()
        return super().ask(do, **request)


def test_a_game_that_finds_its_engine_dying_gets_another_one_once() -> None:
    made: list[Toy] = []

    class Once(Corridor):
        def start(self, folder: str) -> Toy:
            made.append(Toy() if made else Failing())
            return made[-1]

    (rollout,) = recited(Once(), "go")
    assert len(made) == 2
    assert rollout.columns["score"] == pytest.approx(1 / 3)

    class Never(Corridor):
        def start(self, folder: str) -> Toy:
            made.append(Failing())
            return made[-1]

    made.clear()
    world = Never()
    with pytest.raises(PodiumError, match="has died"):
        world.reset(world.task(0))
    assert len(made) == 2
    world.close()
