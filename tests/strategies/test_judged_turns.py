"""Turns rewarded by how much better a judge finds the conversation after them."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from podium import methods
from podium.core.batch import Batch
from podium.core.build import Rollout, Turn
from podium.core.errors import PodiumError
from podium.parts.reward import VerdictReward
from podium.protocols.sampling import Sampling
from podium.protocols.world import Task
from podium.strategies import JudgedRollouts, JudgedTurns, OptionJudge
from podium.strategies.requests import JudgeScores, TaskRequest


def test_the_reward_of_a_turn_is_the_fall_of_the_distance() -> None:
    turns = [Turn([0], columns={"action": f"say {k}", "observation": "yes.", "reward": 9.0}) for k in (1, 2)]
    plan: Any = JudgedTurns(n=1, judge=OptionJudge()).plan(TaskRequest(Task("one", ""), 0, Sampling(), (0, 0, 0)))
    next(plan)
    wave = plan.send([[Rollout("one", turns)]])
    assert [request.text for request in wave] == ["", "> say 1\nyes.", "> say 1\nyes.\n> say 2\nyes."]
    with pytest.raises(StopIteration) as end:
        plan.send([[JudgeScores((score,), 1)] for score in (0.5, 0.75, 0.25)])
    (rollout,) = end.value.value
    assert [turn.columns["reward"] for turn in rollout.turns] == [0.25, -0.5]
    assert (rollout.columns["judged.score"], rollout.columns["judged.calls"]) == (0.25, 3.0)


def test_a_neutral_verdict_is_no_success() -> None:
    batch = Batch.from_rewards([1.0, 1.0], [0, 0], {"rollout.judged.score": torch.tensor([0.5, 0.9])})
    assert VerdictReward()(batch)["rollout.reward"].tolist() == [0.0, 1.0]


def test_mapo_and_agentflow_take_a_judge() -> None:
    mapo, agentflow = methods.mapo(judge="some-model"), methods.agentflow(judge="some-model", kl=0.0)
    assert isinstance(mapo.rollout, JudgedTurns)
    assert isinstance(agentflow.rollout, JudgedRollouts)
    assert [role.name for method in (mapo, agentflow) for role in method.roles] == ["judge", "judge"]
    with pytest.raises(PodiumError, match="leave judge out"):
        methods.mapo(judge="world")
    with pytest.raises(PodiumError, match="must be a judge"):
        JudgedTurns(judge="world")  # type: ignore[arg-type]
