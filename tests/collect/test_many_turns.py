"""What can go wrong in many turns: each has a stated outcome in the rollout's record and in the metrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, ClassVar

import numpy as np
import pytest

from podium import methods, worlds
from podium.collect.driver import Driver
from podium.core.batch import Batch
from podium.core.build import Rollout
from podium.protocols.context import Full
from podium.protocols.sampling import Sampling
from podium.protocols.world import Episode, Feedback, Task, World
from podium.sampler.local import LocalSampler
from podium.sessions.train import train
from podium.strategies import Draw, Sample
from podium.strategies.requests import Recite, TaskRequest
from podium.training.metrics import Metrics
from tests.policy import tiny

EMBEDDED = ("keydoor", "lookup", "tools", "clarify")


class Odd(World):
    """Three turns, of which the second is odd in some way."""

    name = "odd"
    isolation = "inline"
    max_tokens, max_turns = 4, 4
    provides = (*World.provides, "turn.state", "turn.next_state", "turn.action", "turn.reward", "turn.valid")
    blank: ClassVar[dict[str, Any]] = {"valid": False}

    opening: str = "1 plus 2"
    oddities: Mapping[str, Any] = field(default_factory=dict)

    def task(self, index: int, split: str = "train") -> Task:
        return Task(f"odd/{split}/{index}", f"{index} plus 2")

    def reset(self, task: Task, seed: int = 0) -> Episode:
        return _Odd(self, seed)


class _Odd(Episode):
    def __init__(self, world: Odd, seed: int) -> None:
        super().__init__(world.opening, state="start")
        self.world, self.turn, self.right = world, 0, seed % 2 == 0

    def act(self, text: str) -> Feedback:
        self.turn += 1
        last = self.turn == 3
        told: dict[str, Any] = {"reward": 0.25, "done": last, "observation": "2 plus", "state": str(self.turn)}
        told["info"] = {"correct": last and self.right, "answer": "x", "valid": bool(text.strip())}
        if self.turn == 2:
            oddities = dict(self.world.oddities)
            told["info"] |= oddities.pop("info", {})
            told |= oddities
        return Feedback(**told)


def driver(world: World) -> Driver:
    policy = tiny.policy()
    return Driver(LocalSampler(policy), world, follow_up=policy.follow_up, written=policy.written)


def collect(world: World, **settings: Any) -> list[Rollout]:
    request = TaskRequest(world.task(0), 0, Sampling(max_tokens=4), (0, 0, 0))
    (group,) = driver(world).collect([Sample(n=2, draw=Draw(**settings)).plan(request)])
    return group


def recited(world: World, *texts: str) -> Rollout:
    request = TaskRequest(world.task(0), 0, Sampling(max_tokens=4), (0, 0, 0))

    def plan() -> Any:
        (rollouts,) = yield [Recite(request, texts=texts)]
        return rollouts

    at = driver(world)
    at.context_length = float("inf")  # nothing is sampled
    ((rollout,),) = at.collect([plan()])
    return rollout


def line(rollouts: list[Rollout]) -> dict[str, Any]:
    metrics = Metrics()
    metrics.count_sampled(Batch.from_rollouts(rollouts))
    return metrics.line(1)


@pytest.mark.parametrize(
    ("oddity", "reason"),
    [
        ({"reward": float("nan")}, "the world's reward is nan"),
        ({"reward": 1e39}, "the world's reward is 1e+39"),  # whose float32 is infinite
        ({"reward": "much"}, "the world's reward is 'much', not a number"),
        ({"done": "no"}, "the world's done is 'no', not True or False"),
        ({"state": ["a"]}, "the world's state is ['a'], not text"),
        ({"observation": "\ud800"}, "the world's observation has characters that no encoding knows"),
        ({"info": {"answer": "\ud800"}}, "the world's answer has characters that no encoding knows"),
        ({"info": {"valid": "yes"}}, "the world's info['valid'] is 'yes', not True or False"),
        ({"info": None}, "TypeError"),
    ],
)
def test_an_odd_answer_ends_the_episode_with_what_was_earned_and_the_reason(oddity: Any, reason: str) -> None:
    rollouts = collect(Odd(oddities=oddity))
    for rollout in rollouts:
        assert rollout.columns["stop"] == "failed"
        assert reason in rollout.columns["failure"]
        assert rollout.columns["reward"] == 0.25
        assert len(rollout.turns) == 2
    assert line(rollouts)["failures"] == 2


@pytest.mark.parametrize("reward", [np.float32(0.5), np.float64(0.5), 1, np.int64(1)])
def test_numbers_of_other_kinds_are_rewards(reward: Any) -> None:
    (rollout, _) = collect(Odd(oddities={"reward": reward, "info": {"valid": np.bool_(True)}}))
    assert rollout.columns["failure"] == ""
    assert rollout.columns["reward"] == pytest.approx(0.5 + float(reward))


def test_a_first_observation_that_fills_the_context_is_a_stated_end() -> None:
    rollouts = collect(Odd(opening="1 plus " * 2000))
    for rollout in rollouts:
        assert (rollout.columns["stop"], rollout.columns["truncated"]) == ("context", True)
        assert [len(turn.ids) for turn in rollout.turns] == [0]
    assert line(rollouts)["stop.context"] == 1.0


def test_a_first_observation_that_cannot_be_encoded_is_a_failure() -> None:
    rollouts = collect(Odd(opening="\ud800 plus"))
    assert all("begins with characters that no encoding knows" in r.columns["failure"] for r in rollouts)


def test_rewards_against_the_verdict_are_counted() -> None:
    """Right, and yet the turns took more than they gave."""
    rollouts = collect(Odd(oddities={"reward": -9.0}))
    right = sum(rollout.columns["correct"] for rollout in rollouts)
    assert right
    assert line(rollouts)["contradictions"] == right
    assert "contradictions" not in line(collect(Odd()))


@pytest.mark.parametrize("name", EMBEDDED)
@pytest.mark.parametrize("said", ["", " \n", "fly to the moon", "answer:", "go\x00", "é" * 3000])
def test_what_is_no_action_is_a_turn_that_is_not_valid(name: str, said: str) -> None:
    world = worlds.get(name, level=1)
    rollout = recited(world, said, said)
    assert rollout.columns["failure"] == ""
    assert rollout.columns["stop"] in ("end", "turns")
    assert not rollout.columns["correct"]
    assert len(rollout.turns) in (1, 2)  # an empty answer is an answer
    if not said.startswith("answer"):
        assert not any(turn.columns["valid"] for turn in rollout.turns) or (name, said.strip()) == ("keydoor", "")


@pytest.mark.parametrize("name", EMBEDDED)
def test_limits_of_turns_and_context_are_stated(name: str) -> None:
    world = worlds.get(name, level=2)
    rollouts = collect(world, max_turns=1)
    assert {r.columns["stop"] for r in rollouts} <= {"turns", "end", "length"}
    at = driver(world)
    request = TaskRequest(world.task(0), 0, Sampling(max_tokens=4), (0, 0, 0))
    at.context_length = len(at.messages([world.task(0).prompt])) + 6  # room for the first turn alone
    (group,) = at.collect([Sample(n=2, draw=Draw(context=Full())).plan(request)])
    assert all(r.columns["stop"] in ("context", "end") for r in group)
    assert all(r.columns["truncated"] for r in group if r.columns["stop"] == "context")


class Duo(World):
    """Two may act, and one of them never does."""

    name = "duo"
    isolation = "inline"
    max_tokens, max_turns = 4, 3
    agents = ("a", "b")
    provides = (*World.provides, "turn.agent", "turn.reward", "turn.state", "turn.next_state", "turn.action")

    def task(self, index: int, split: str = "train") -> Task:
        return Task(f"duo/{split}/{index}", f"{index} plus 2")

    def reset(self, task: Task, seed: int = 0) -> Episode:
        return _Duo(task.prompt, seed)


class _Duo(Episode):
    agent = "a"

    def __init__(self, prompt: str, seed: int) -> None:
        super().__init__(prompt, state="start")
        self.turn, self.right = 0, seed % 2 == 0

    def act(self, text: str) -> Feedback:
        self.turn += 1
        done = self.turn == 2
        info = {"correct": done and self.right, "answer": ""}
        return Feedback(float(done and self.right), done, "2 plus", str(self.turn), info)


def test_an_agent_that_never_acts_is_named_and_counted() -> None:
    rollouts = collect(Duo())
    assert [rollout.columns["idle"] for rollout in rollouts] == ["b", "b"]
    assert line(rollouts)["idle"] == 1.0


@pytest.mark.parametrize(("slug", "settings"), [("mars", {}), ("grpo", {}), ("gigpo", {"invalid": 0.0})])
def test_methods_train_where_an_agent_never_acts(slug: str, settings: dict[str, Any], tmp_path: Any) -> None:
    method = methods.get(slug, **settings).set("rollout.n", 4)
    result = train(method, world=Duo(), tasks=2, iterations=1, eval_tasks=1, eval_samples=1, out=tmp_path / "run")  # type: ignore[arg-type]
    assert np.isfinite(result.metrics[-1]["loss"])
    assert result.metrics[-1]["idle"] == 1.0
