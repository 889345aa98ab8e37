"""EARL: tokens as actions, calls inserted into failed groups, and their gains."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from podium import methods, worlds
from podium.core.batch import Batch
from podium.core.build import Rollout
from podium.core.errors import PodiumError
from podium.memories import ToolGains
from podium.parts.advantage import CounterfactualGain, Normalize
from podium.policy import load
from podium.policy.model.action_tokens import start_actions
from podium.protocols.actions import ToolActions
from podium.protocols.sampling import Sampling
from podium.sessions.evaluate import driver_for
from podium.sessions.train import resume
from podium.strategies import Counterfactual, Draw
from podium.strategies.requests import TaskRequest
from podium.strategies.trees.counterfactual import draw_place
from tests.methods.support import short_run
from tests.sessions.test_train import numbers

TOKEN = "<|reserved_28|>"


def batch(rewards: list[float], before: list[float], tools: list[int]) -> Batch:
    columns = {
        "rollout.reward_before": torch.tensor(before),
        "rollout.rewritten": torch.tensor([tool >= 0 for tool in tools]),
        "rollout.tool": torch.tensor(tools),
    }
    return Batch.from_rewards(rewards, [0] * len(rewards), columns)


def test_without_a_failed_group_it_is_grpo_number_for_number() -> None:
    one = batch([1.0, 0.0, 0.25], [1.0, 0.0, 0.25], [-1, -1, -1])
    assert CounterfactualGain()(one)["rollout.advantage"].equal(Normalize()(one)["rollout.advantage"])


def test_gains_of_tools_by_hand() -> None:
    memory = ToolGains(2)
    state = memory.observe(memory.initial(), batch([1.0, 0.0, 0.0], [0.0, 0.0, 0.0], [1, 1, 1]))
    assert state == {"gains": pytest.approx([0.001, 0.9 * 0.001 + 0.1 / 3]), "iteration": 1}
    assert memory.observe(state, batch([1.0], [1.0], [-1]))["gains"] == state["gains"]
    assert memory.probabilities([0.0, -1.0]).tolist() == [0.5, 0.5]
    drawn = [int(memory.recall({**state, "iteration": n}, ["a"])["group.tool"][0]) for n in range(400)]
    assert sum(drawn) / 400 == pytest.approx(float(memory.probabilities(state["gains"])[1]), abs=0.08)


def test_places_are_drawn_among_the_likeliest() -> None:
    scores = torch.tensor([0.5, 0.3, 0.15, 0.05]).log().tolist()
    assert [draw_place(scores, u, 10, 0.9) for u in (0.0, 0.52, 0.53, 0.84, 0.99)] == [0, 0, 1, 1, 2]
    assert {draw_place(scores, u / 10, 2, 1.0) for u in range(10)} == {0, 1}
    assert draw_place(scores[:1], 0.9, 10, 0.9) == 0


def test_a_call_is_read_from_its_token_and_not_from_text() -> None:
    format = ToolActions(words=((TOKEN, "calc:"),))
    assert format.read(f"so {TOKEN} 12*34").action == "calc: 12*34"
    assert format.read("answer: 408").action == "answer: 408"
    assert (format.read("calc: 12*34").action, format.read("calc: 12*34").well_formed) == ("", False)


def collected(**settings: Any) -> list[Rollout]:
    """The group of one task of the calculator, under a policy that hardly ever calls the tool."""
    world, policy = worlds.get("calculator"), load("podium/tiny2")
    strategy = methods.earl(n=4).rollout
    assert isinstance(strategy, Counterfactual)
    strategy = strategy.replace(**settings)
    start_actions(policy, strategy.spelled)
    driver = driver_for(policy, world)
    driver.capture = ("allowed",)
    recalled = {"group.tool": 0}
    request = TaskRequest(
        world.task(0), 0, Sampling(max_tokens=32), (0, 0), recalled, world=world, format=strategy.format
    )
    (group,) = driver.collect([strategy.plan(request)])
    return group


def test_a_failed_group_gets_a_call_and_keeps_what_stood_before_it() -> None:
    policy = load("podium/tiny2")
    call = policy.tokenizer.convert_tokens_to_ids(TOKEN)
    group = collected()
    new, old = group[:4], group[4:]
    assert [r.columns["rewritten"] for r in group] == [True] * 4 + [False] * 4
    for after, before in zip(new, old, strict=True):
        turn = next(n for n, t in enumerate(after.turns) if call in t.ids)
        at = list(after.turns[turn].ids).index(call)
        assert after.turns[:turn] == [] or after.turns[0].ids == before.turns[0].ids
        assert tuple(after.turns[turn].ids[:at]) == tuple(before.turns[turn].ids[:at])
        assert call not in before.turns[turn].ids[:at]  # never inside of a tool
        allowed = after.turns[turn].tokens["sampler.allowed"]
        assert not any(isinstance(one, str) for one in allowed[: at + 1])
        assert all(isinstance(one, str) for one in allowed[at + 1 :])  # what the tool takes, and nothing else
        assert after.columns["reward_before"] == before.columns["reward"] == 0
    assert collected(active=0.0)[0].columns["rewritten"] is False


def test_the_token_begins_at_the_mean_of_its_word() -> None:
    policy = load("podium/tiny2")
    before = policy.model.get_input_embeddings().weight.clone()
    start_actions(policy, {TOKEN: "calc:"})
    after = policy.model.get_input_embeddings().weight
    changed = (after != before).any(1).nonzero().reshape(-1).tolist()
    assert changed == [policy.tokenizer.convert_tokens_to_ids(TOKEN)]
    assert torch.allclose(after[changed[0]], before[list(policy.written("calc:", False))].mean(0))


def test_a_resumed_run_is_the_same_to_the_bit(tmp_path: Path) -> None:
    settings = {"world": "calculator", "model": "podium/tiny2", "tasks": 2, "max_tokens": 24, "iterations": 2}
    result = short_run(methods.earl(n=2), tmp_path / "run", checkpoint_every=1, keep_checkpoints=9, **settings)
    whole = numbers(result.path)
    shutil.rmtree(result.path / "checkpoints" / "iteration-000002")
    resume(result.path)
    assert numbers(result.path) == whole


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tools": ("calk",)}, "there is no tool 'calk'.*calc"),
        ({"tools": ("calc", "calc")}, "name each tool once"),
        ({"tools": ("compare", "swap"), "tokens": (TOKEN,)}, "need a token each, and have 1"),
    ],
)
def test_tools_that_do_not_exist_or_have_no_token_are_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(PodiumError, match=message):
        methods.earl(**settings)


def test_a_strategy_without_tools_and_a_model_without_the_token_are_refused() -> None:
    with pytest.raises(PodiumError, match="ToolActions"):
        Counterfactual(draw=Draw())
    with pytest.raises(PodiumError, match="has no token"):
        start_actions(load("podium/tiny2"), {"<|call|>": "calc:"})
    with pytest.raises(PodiumError, match="a token and a word"):
        ToolActions(words=((TOKEN, " "),))
