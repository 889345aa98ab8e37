"""Numbers that cannot be finite are named: in the error that ends a run, in metrics, and in sentences."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch

import podium
from podium.core.batch import Batch
from podium.core.gradient import UpdateResult
from podium.core.part import Columns, Metric, Reward
from podium.parts.objective import PolicyGradient, ValueLoss
from podium.report.outcomes import troubles
from podium.training.metrics import Metrics
from podium.training.non_finite import cause


class ScaledReward(Reward):
    """The world's reward times a factor."""

    factor: float = 1e30
    needs = ("rollout.reward",)
    provides = ("rollout.reward",)

    def __call__(self, batch: Batch) -> Columns:
        return {"rollout.reward": batch["rollout.reward"] * self.factor}


class Watched(Metric):
    """A metric whose values are given."""

    provides = ("rollout.watched",)


def trained(method: str, factor: float, out: Path) -> list[dict[str, float]]:
    plain = podium.methods.get(method)
    scaled = plain.replace(reward=(*plain.reward, ScaledReward(factor)))
    podium.train(scaled, world="sums", level=1, tasks=4, iterations=1, eval_every=0, eval_tasks=2, out=out)
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text("utf-8").splitlines()]


def rewarded(rewards: list[float], advantage: float = 1.0) -> Batch:
    tokens = {("token", "turn"): torch.arange(4), ("turn", "rollout"): torch.arange(4)}
    columns = {
        "group.task": ["a", "b"],
        "rollout.index": torch.tensor([0, 1, 0, 1]),
        "rollout.reward": torch.tensor(rewards, dtype=torch.float32),
        "token.advantage": torch.full((4,), advantage),
    }
    return Batch({**tokens, ("rollout", "group"): torch.tensor([0, 0, 1, 1])}, columns)


def test_rewards_of_1e30_are_learned_from(tmp_path: Path) -> None:
    line = next(line for line in trained("grpo", 1e30, tmp_path / "run") if "grad_norm.policy" in line)
    assert line["advantage.std"] > 0.1
    assert line["grad_norm.policy"] > 0.01


def test_a_gradient_that_overflows_names_the_rewards(tmp_path: Path) -> None:
    with pytest.raises(podium.PodiumError, match=r"gradient norm is inf .* rewards reach 1e\+30 .* scale the rewards"):
        trained("dr-grpo", 1e30, tmp_path / "run")


def test_the_cause_names_the_term_and_why_it_overflows() -> None:
    terms = [PolicyGradient(), ValueLoss()]
    said = cause(rewarded([1e25, 0, 0, 0]), terms, {"PolicyGradient": 0.1, "ValueLoss": math.inf})
    assert said == (
        "the loss of ValueLoss is inf (it squares the distance of values from returns), "
        "rewards reach 1e+25: scale the rewards."
    )
    assert cause(rewarded([1, 0, 0, 0]), terms, {"PolicyGradient": 0.1}) == "lower the learning rate."


def test_infinite_values_are_counted_and_undefined_ones_are_not() -> None:
    metrics = Metrics()
    batch = rewarded([1, 0, 0, 0]).with_columns({"rollout.watched": torch.tensor([1.0, math.inf, math.nan, 3.0])})
    metrics.report(batch, [Watched()])
    line = metrics.line(1)
    assert (line["watched"], line["not_finite.watched"]) == (2.0, 1)
    assert troubles(line)[0][1] == "watched was infinite or undefined 1 times: its mean leaves these values out."


def test_losses_that_are_not_finite_do_not_hide_the_others() -> None:
    metrics = Metrics()
    for loss in (1.0, math.nan, 3.0):
        metrics.add_update(UpdateResult(loss, {}), {})
    line = metrics.line(1)
    assert (line["loss"], line["not_finite.loss"]) == (2.0, 1)
    json.dumps(line, allow_nan=False)


@pytest.mark.parametrize(
    ("rewards", "advantage", "expected"),
    [
        ([1.0, 0.0, 1.0, 1.0], 0.0, None),  # a method may have its reasons
        ([1e-30, 0.0, 1.0, 1.0], 1e-24, 1),
        ([1e30, 0.0, -1e30, 0.0], 0.0, 2),
        ([1e30, 0.0, 0.0, 0.0], 1.0, None),
    ],
)
def test_advantages_of_0_from_different_rewards_are_reported(
    rewards: list[float], advantage: float, expected: int | None
) -> None:
    metrics = Metrics()
    metrics.describe(rewarded(rewards, advantage))
    line = metrics.line(1)
    assert line.get("groups.vanished") == expected
    assert len(troubles(line)) == (expected is not None)


def test_rewards_that_float32_cannot_tell_apart_are_reported() -> None:
    metrics, given = Metrics(), [1e9, 1e9 + 1, 0.1 + 0.2, 0.3]
    metrics.count_merged(rewarded(given), given)
    line = metrics.line(1)
    assert line["groups.merged"] == 1  # 0.1 + 0.2 is meant to be 0.3
    assert "differ by less than float32 can tell" in troubles(line)[0][1]
