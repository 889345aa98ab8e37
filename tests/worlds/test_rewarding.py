"""Reward functions of a user: forms, weights, limits, and failures that are counted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from podium import worlds
from podium.core.errors import PodiumError
from podium.protocols.world import FailedAction, Feedback, completed
from podium.sessions.train import own_data, train
from podium.training.config import Config
from podium.worlds.graded import Graded
from podium.worlds.rewarding import reward_names, reward_specs

FUNCTIONS = """
import asyncio, os, time

def plain(prompt, completion):
    return len(completion) / 10

def with_column(completion, answer):
    return completion.count(answer)

def trl(prompts, completions, answer, **columns):
    assert columns["topic"] == ["sums"]
    return [float(a in c) for c, a in zip(completions, answer)]

def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    return {"score": float(ground_truth in solution_str), "acc": 1.0}

async def slow(prompts, completions, **columns):
    await asyncio.sleep(0.05)
    return [0.5] * len(completions)

def longest(prompts, completions, **columns):
    return [float(len(c) == max(map(len, completions))) for c in completions]

def some(completions, **columns):
    return [1.0, None, float("nan")] + [0.0] * (len(completions) - 3)

def one_for_all(completions, **columns):
    return [1.0]

def breaks(completions, **columns):
    raise KeyError("score")

def not_applicable(prompt, completion):
    return None

def raises(prompt, completion):
    raise ValueError("no such thing")

def hangs(prompt, completion):
    time.sleep(60)

def not_a_number(prompt, completion):
    return float("nan")

def text(prompt, completion):
    return "good"

def dies(prompt, completion):
    os._exit(3)

def wants_more(prompt, completion, colour):
    return 1.0
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(FUNCTIONS)
    rows = [{"question": f"{i} + 1?", "answer": str(i + 1), "topic": "sums"} for i in range(8)]
    (tmp_path / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def world_with(*reward: str, seconds: float = 20.0) -> Graded:
    world = worlds.get("data:data.jsonl", reward_functions=reward, reward_s=seconds, grader="exact")
    assert isinstance(world, Graded)
    return world


def test_all_forms_are_called_and_weighed(folder: Path) -> None:
    names = ["plain=0.1", "with_column", "trl=2", "compute_score", "slow", "not_applicable"]
    world = world_with(*(f"mine.py:{name}" for name in names))
    task = world.task(0)
    feedback = completed(world.grade(task, f"so {task.data['answer']}"))
    found = {"plain": 0.4, "with_column": 1, "trl": 1, "compute_score": 1, "slow": 0.5, "not_applicable": 0}
    assert {name: feedback.info[f"reward.{name}"] for name in found} == pytest.approx(found)
    assert feedback.reward == pytest.approx(0.04 + 1 + 2 + 1 + 0.5)
    world.close()


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("raises", "the reward function raises raised ValueError: no such thing"),
        ("not_a_number", "the reward function not_a_number returned nan"),
        ("text", "the reward function text returned 'good', which is no number"),
        ("not_applicable", "no reward function applies"),
        ("dies", "the reward functions failed"),
        ("hangs", "the reward functions did not answer within 1 s"),
    ],
)
def test_every_failure_has_its_reason(folder: Path, name: str, reason: str) -> None:
    world = world_with(f"mine.py:{name}", seconds=1.0)
    with pytest.raises(FailedAction, match=reason):
        world.grade(world.task(0), "answer: 1")
    world.close()


def graded_together(world: Graded, texts: list[str]) -> list[Feedback | FailedAction]:
    begun = [world.grade(world.task(number), text) for number, text in enumerate(texts)]
    later = begun[0].later
    assert later is not None
    return list(later.complete(begun))


def test_functions_in_trl_s_form_see_the_whole_batch(folder: Path) -> None:
    world = world_with("mine.py:longest", "mine.py:plain=0.1")
    results = graded_together(world, ["one", "three", "five."])
    assert [r.reward for r in results if isinstance(r, Feedback)] == pytest.approx([0.03, 1.05, 1.05])
    assert [r.info["reward.longest"] for r in results if isinstance(r, Feedback)] == [0.0, 1.0, 1.0]
    world.close()


def test_failures_in_a_batch_are_those_of_their_completions(folder: Path) -> None:
    world = world_with("mine.py:some")
    paid, none, bad, zero = graded_together(world, ["a", "b", "c", "d"])
    assert (isinstance(paid, Feedback), isinstance(zero, Feedback)) == (True, True)
    assert "all of them returned None" in str(none)
    assert "some returned nan" in str(bad)
    for name, reason in (("one_for_all", "returned 1 rewards for 4 completions"), ("breaks", "raised KeyError")):
        world = world_with(f"mine.py:{name}")
        with pytest.raises(FailedAction, match=reason):
            graded_together(world, ["a", "b", "c", "d"])
        world.close()


def test_a_run_rewards_a_batch_at_once(folder: Path) -> None:
    """Ranks within the batch: their sum is that of 0 … n − 1, whatever was written."""
    (folder / "rank.py").write_text(
        "def rank(completions, prompts, task, **columns):\n"
        "    assert [p.split() for p in prompts] and len(task) == len(completions)\n"
        "    order = sorted(range(len(completions)), key=lambda n: len(completions[n]))\n"
        "    return [float(order.index(n)) for n in range(len(completions))]\n\n"
        "def groups(completions, task, **columns):\n"
        "    return [float(task[n] == task[n - n % 8]) for n in range(len(task))]\n"
    )
    size = {"iterations": 2, "tasks": 4, "eval_tasks": 4, "eval_samples": 1, "eval_every": 0}
    result = train("grpo", world="sums", reward=["rank.py:rank", "rank.py:groups"], out=folder / "run", **size)
    last = result.metrics[-1]
    assert last["rollouts"] == 32
    assert last["reward.rank"] == pytest.approx(31 / 2)
    assert last["reward.groups"] == 1.0  # the rollouts of a task stand together, 8 by 8
    assert last["reward"] == pytest.approx(31 / 2 + 1)
    assert "failures" not in last
    assert result.metrics[0]["eval.reward"] == pytest.approx(3 / 2 + groups_of_one(4))


def groups_of_one(count: int) -> float:
    """What `groups` gives on average for tasks of one rollout each: the first of eight is its own."""
    return sum(n % 8 == 0 for n in range(count)) / count


def test_functions_that_cannot_be_called_are_refused_at_the_start(folder: Path) -> None:
    for name, reason in (
        ("wants_more", "nothing to give it as 'colour'"),
        ("wants_mor", "Did you mean 'wants_more'"),
        ("plain=much", "the weight 'much' is no number"),
        ("", "names no function"),
    ):
        with pytest.raises(PodiumError, match=reason):
            world_with(f"mine.py:{name}")
    with pytest.raises(PodiumError, match=r"There is no file 'other\.py'"):
        world_with("other.py:f")


def test_functions_are_named_with_their_weights() -> None:
    assert reward_names(reward_names) == ("podium.worlds.rewarding:reward_names",)
    assert reward_names([("a.py:f", 0.5), "b.py:g"]) == ("a.py:f=0.5", "b.py:g")
    assert reward_names(("a.py:f", 2)) == ("a.py:f=2",)
    with pytest.raises(PodiumError, match="cannot be a reward: other processes must find it by name"):
        reward_names(lambda prompt, completion: 1.0)
    assert own_data({"data": "x.csv", "reward": "a.py:f"}) == {"world": "data:x.csv", "reward_functions": ("a.py:f",)}
    assert own_data({"world": "code", "reward": "share"}) == {"world": "code", "reward": "share"}


def test_two_functions_of_one_name_have_two_columns() -> None:
    specs = reward_specs(["a.py:f", "b.py:f=0.5"])
    assert [spec.column for spec in specs] == ["reward.f", "reward.f-2"]


def test_a_run_counts_failures_and_logs_each_function(folder: Path) -> None:
    (folder / "some.py").write_text(
        "def long(prompt, completion):\n    return len(completion) / 50\n\n"
        "def picky(prompt, completion):\n    return 1 / (len(completion) % 3)\n"
    )
    names = ["some.py:long", "some.py:picky=0.5"]
    size = {"iterations": 2, "tasks": 4, "eval_tasks": 4, "eval_every": 0}
    result = train("grpo", world="sums", reward=names, out=folder / "run", **size)
    last = result.metrics[-1]
    assert last["reward.long"] > 0
    assert 0 < last["failures"] < last["rollouts"]
    assert "picky raised ZeroDivisionError" in last["failure"]
    config = Config.from_yaml((folder / "run" / "config.yaml").read_text())
    assert config.world_settings is not None
    assert list(config.world_settings["reward_functions"]) == ["some.py:long", "some.py:picky=0.5"]


def test_reward_functions_of_a_strange_run_are_not_executed(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "evil.py"
    elsewhere.write_text("raise SystemExit('executed')")
    text = f"world: sums\nworld_settings: {{reward_functions: ['{elsewhere}:f=2']}}\nmethod: {{Method: {{name: x}}}}\n"
    with pytest.raises(PodiumError, match="Code is named here that was not run"):
        Config.from_yaml(text)
