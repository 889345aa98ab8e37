"""Episodes of a group: one start, each its own chance; what the context cannot hold; worlds that do not open."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, ClassVar

import pytest

import podium
from podium.collect.driver import Driver
from podium.core.build import Rollout
from podium.protocols.sampling import Sampling
from podium.protocols.world import Episode, Feedback, Task, World
from podium.sampler.local import LocalSampler
from podium.sessions.train import train
from podium.strategies import Sample
from podium.strategies.requests import TaskRequest
from podium.training.resolve import fill_in
from podium.training.run import Run
from tests.policy import tiny
from tests.sessions.test_train import numbers, small


class Slippery(World):
    """Three turns; the reward of each is a number that the seed determines."""

    name = "slippery"
    isolation = "inline"
    max_tokens = 3
    wordy: int = 1  # how long its observations are
    seeds: ClassVar[list[int]] = []

    def task(self, index: int, split: str = "train") -> Task:
        return Task(f"slippery/{split}/{index}", f"{index} plus 2")

    def reset(self, task: Task, seed: int = 0) -> Episode:
        self.seeds.append(seed)
        return _Slip(task.prompt, seed, self.wordy)


class _Slip(Episode):
    def __init__(self, observation: str, seed: int, wordy: int) -> None:
        super().__init__(observation)
        self.seed, self.wordy, self.turn = seed, wordy, 0

    def act(self, text: str) -> Feedback:
        self.turn += 1
        reward = float((self.seed >> self.turn) % 2)
        return Feedback(reward, done=self.turn == 3, observation="1 plus 2 " * self.wordy)


def collect(world: World, seed: int = 0, iteration: int = 0, n: int = 4) -> list[list[Rollout]]:
    policy = tiny.policy()
    driver = Driver(LocalSampler(policy), world, follow_up=policy.follow_up, written=policy.written)
    run = Run(fill_in(small(seed=seed), world), world, policy, None, driver)  # type: ignore[arg-type]
    run.iteration = iteration
    method = podium.methods.get("grpo").with_(rollout=Sample(n=n))
    return driver.collect([method.rollout.plan(r) for r in run.requests(method, 2)])


@pytest.fixture(autouse=True)
def _forget() -> None:
    Slippery.seeds.clear()


def seeds(**where: int) -> list[int]:
    Slippery.seeds.clear()
    collect(Slippery(), **where)
    return list(Slippery.seeds)


def test_each_episode_of_a_group_has_its_own_chance_and_the_same_start() -> None:
    groups = collect(Slippery())
    assert len(set(Slippery.seeds)) == 8
    assert all(len({r.turns[0].context for r in group}) == 1 for group in groups)
    rewards = {tuple(t.columns["reward"] for t in r.turns) for group in groups for r in group}
    assert len(rewards) > 1


def test_chance_is_named_by_seed_iteration_group_and_index() -> None:
    assert seeds() == seeds()
    assert not set(seeds()) & set(seeds(seed=1))
    assert not set(seeds()) & set(seeds(iteration=1))
    assert seeds(n=2)[:2] == seeds(n=4)[:2]  # a larger group changes nothing for the first ones


def test_seeds_fit_generators_of_31_bits() -> None:
    assert all(0 <= s < 2**31 for s in seeds())


class Shifty(Slippery):
    """Its observation depends on the seed."""

    name = "shifty"

    def reset(self, task: Task, seed: int = 0) -> Episode:
        return _Slip(f"{seed % 10} plus 2", seed, 1)


def test_a_world_whose_first_observation_varies_is_shown_to_the_model_as_it_is() -> None:
    policy = tiny.policy()
    for group in collect(Shifty()):
        for rollout in group:
            first = policy.tokenizer.decode(list(rollout.turns[0].context))
            assert "plus 2" in first
        assert len({r.turns[0].context for r in group}) > 1
        assert [r.columns["index"] for r in group] == [0, 1, 2, 3]


def test_an_episode_that_outgrows_the_context_ends_there() -> None:
    for group in collect(Slippery(wordy=80)):  # the context of the model has 256 tokens
        for rollout in group:
            assert rollout.columns["stop"] == "context"
            assert rollout.columns["truncated"] is True
            assert len(rollout.turns) < 3


class Closed(Slippery):
    name = "closed"

    def reset(self, task: Task, seed: int = 0) -> Episode:
        raise OSError("no door")


def test_a_world_that_does_not_open_is_a_failed_episode() -> None:
    for group in collect(Closed()):
        assert all(r.columns["failure"] == "the world raised OSError: no door" for r in group)
        assert all(r.columns["reward"] == 0.0 for r in group)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (None, "the world answered None, not a Feedback"),
        (Feedback(info=None), "its info no mapping"),  # type: ignore[arg-type]
        (Feedback(observation=3), "observation is not text"),  # type: ignore[arg-type]
    ],
)
def test_an_answer_that_is_none_is_a_failure(answer: Any, words: str) -> None:
    from tests.collect.test_acting import Actor

    class Odd(Episode):
        def act(self, text: str) -> Feedback:
            return answer  # type: ignore[no-any-return]

    seen: list[str] = []
    Actor(inline=True).act(Odd("?"), "", lambda _, failure: seen.append(failure))
    assert words in seen[0]


def test_spurious_random_rewards_differ_within_a_group_and_repeat_with_the_seed(tmp_path: Path) -> None:
    config = small(iterations=1, spurious="random", tasks=4)
    for name in ("a", "b"):
        train(config, out=tmp_path / name)
    assert numbers(tmp_path / "a") == numbers(tmp_path / "b")
    assert 0 < numbers(tmp_path / "a")[1]["reward"] < 1


class Stuck(Slippery):
    name = "stuck"
    isolation = ""

    def reset(self, task: Task, seed: int = 0) -> Episode:
        time.sleep(0.5)
        return super().reset(task, seed)


def test_a_world_that_hangs_when_it_opens_is_given_up_after_its_limit() -> None:
    policy = tiny.policy()
    driver = Driver(LocalSampler(policy), Stuck(), follow_up=policy.follow_up, act_limit_s=0.05)
    request = TaskRequest(Stuck().task(0), 0, Sampling(max_tokens=3), (0, 0, 0))
    ((rollout,),) = driver.collect([Sample(n=1).plan(request)])
    assert rollout.columns["failure"] == "the world did not open the episode within 0.05 s"


class Endless(Slippery):
    name = "endless"

    def task(self, index: int, split: str = "train") -> Task:
        if index == 1:
            raise KeyError("questions")
        return super().task(index, split)


def test_a_task_that_cannot_be_made_is_named() -> None:
    with pytest.raises(podium.PodiumError, match=r"^The world 'endless' could not make its train task 1: KeyError"):
        collect(Endless())
