"""Directions told in the prompt, and what is kept of the answers."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from podium.core.batch import Batch
from podium.core.errors import PodiumError
from podium.parts.annotate import ScoreVector
from podium.parts.keep import KeepBest
from podium.parts.metric import Steering
from podium.parts.reward import DirectionalReward
from podium.protocols.sampling import Sampling
from podium.protocols.world import Task
from podium.strategies import Directed
from podium.strategies.requests import Play, Recite, TaskRequest
from podium.strategies.sample.directed import PAPER_TEXT, prompt_weights, unit_vector

# (help, verb) of three candidates, from the paper's worked example at −15 degrees.
SCORES = [[70.0, 40.0], [68.0, 20.0], [75.0, 90.0]]


def request(group: int = 0) -> TaskRequest:
    return TaskRequest(Task("t", "sum: 1+1"), group, Sampling(), (0, group))


def directed(angle: float, scores: list[list[float]], groups: list[int] | None = None) -> Batch:
    columns = {
        "rollout.scores": torch.tensor(scores, dtype=torch.float64),
        "rollout.angle": torch.full((len(scores),), angle, dtype=torch.float64),
    }
    return Batch.from_rewards([0.0] * len(scores), groups or [0] * len(scores), columns)


def test_the_direction_of_an_angle() -> None:
    assert unit_vector(-15) == pytest.approx((0.9659258, -0.2588190))
    assert prompt_weights(-15) == (97, -26)
    assert prompt_weights(0) == (100, 0)


def test_the_best_projection_is_kept() -> None:
    batch = directed(-15.0, SCORES)
    reward = DirectionalReward()(batch)["rollout.reward"]
    assert reward.tolist() == pytest.approx([57.262046, 60.506575, 49.150723])
    kept = KeepBest()(batch.with_columns({"rollout.reward": reward}))["rollout.keep.best"]
    assert kept.tolist() == [False, True, False]


def test_of_equal_candidates_the_first_is_kept() -> None:
    batch = Batch.from_rewards([1.0, 2.0, 2.0, 5.0], [0, 0, 0, 1], {})
    assert KeepBest()(batch)["rollout.keep.best"].tolist() == [False, True, False, True]


def test_less_weight_on_a_score_never_brings_more_of_it() -> None:
    scores = torch.rand(40, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64).tolist()
    second = []
    for angle in range(-45, 46, 5):
        batch = directed(float(angle), scores)
        kept = KeepBest()(batch.with_columns(DirectionalReward()(batch)))["rollout.keep.best"]
        second.append(scores[kept.tolist().index(True)][1])
    assert second == sorted(second)
    assert second[0] < second[-1]


def test_a_direction_needs_two_scores() -> None:
    batch = directed(0.0, [[1.0, 2.0, 3.0]])
    with pytest.raises(PodiumError, match="two components"):
        DirectionalReward()(batch)
    with pytest.raises(PodiumError, match="one for each"):
        ScoreVector(full=(1.0,))


def test_scores_share_a_scale_of_a_hundred() -> None:
    batch = Batch.from_rewards([1.0, 0.5], [0, 0], {"rollout.size": torch.tensor([8.0, 16.0])})
    found = ScoreVector(("rollout.reward", "rollout.size"), (1.0, 32.0))(batch)["rollout.scores"]
    assert found.tolist() == [[100.0, 25.0], [50.0, 50.0]]


def test_a_group_is_told_one_direction_and_keeps_its_angle() -> None:
    strategy = Directed(n=3, low=-45, high=45)
    (play,) = next(strategy.plan(request()))
    assert isinstance(play, Play)
    angle = play.columns["angle"]
    assert -45 <= angle <= 45
    first, second = prompt_weights(angle)
    assert play.request.task.prompt == f"weights: {first} {second}\nsum: 1+1"
    assert play.n == 3
    (other,) = next(strategy.plan(request(1)))
    assert isinstance(other, Play)
    assert other.columns["angle"] != angle
    (again,) = next(strategy.plan(request()))
    assert again == dataclasses.replace(play)


def test_given_answers_are_written_in_all_styles() -> None:
    wave = next(Directed(styles=("short", "long")).plan(request()))
    assert [w.style for w in wave if isinstance(w, Recite)] == ["short", "long"]
    assert Directed(styles=("short",)).needs == ("task.solution",)
    assert Directed().needs == ()


def test_the_prompt_must_name_everything() -> None:
    with pytest.raises(PodiumError, match=r"where \{second\} is to stand"):
        Directed(text="{first} {question}")
    told = Directed(text=PAPER_TEXT).told(request(), -15).task.prompt
    assert "helpfulness*97 + verbosity*-26" in told


def test_steering_is_the_rank_correlation_of_angle_and_second_score() -> None:
    angles = torch.tensor([-40.0, -40.0, 0.0, 0.0, 30.0, 30.0], dtype=torch.float64)
    second = torch.tensor([1.0, 3.0, 5.0, 7.0, 4.0, 6.0], dtype=torch.float64)  # means 2, 6, 5
    scores = torch.stack([torch.zeros_like(second), second], -1)
    batch = Batch.from_rewards([0.0] * 6, [0, 0, 1, 1, 2, 2], {"rollout.angle": angles, "rollout.scores": scores})
    assert Steering()(batch)["batch.steering"].tolist() == pytest.approx([0.5])
    flat = batch.with_columns({"rollout.scores": torch.zeros_like(scores)})
    assert Steering()(flat)["batch.steering"].tolist() == [0.0]


def test_steering_compares_means_whatever_the_size_of_a_group() -> None:
    angles = torch.tensor([-40.0, -30.0, -30.0, 10.0], dtype=torch.float64)
    second = torch.tensor([1.0, 2.0, 2.0, 3.0], dtype=torch.float64)  # sums would be 1, 4, 3 and angles −40, −60, 10
    scores = torch.stack([torch.zeros_like(second), second], -1)
    batch = Batch.from_rewards([0.0] * 4, [0, 1, 1, 2], {"rollout.angle": angles, "rollout.scores": scores})
    assert Steering()(batch)["batch.steering"].tolist() == pytest.approx([1.0])


def test_angles_fill_the_range_evenly() -> None:
    plays = [next(Directed(n=1, low=-30, high=60).plan(request(group)))[0] for group in range(200)]
    angles = sorted(play.columns["angle"] for play in plays if isinstance(play, Play))
    assert angles[0] < -28
    assert angles[-1] > 58
    assert sum(angles) / len(angles) == pytest.approx(15, abs=6)  # three standard errors
