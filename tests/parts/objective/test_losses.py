"""Losses, by numbers worked out by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from podium.core.batch import Batch
from podium.core.build import Rollout, Turn
from podium.parts.objective import (
    KL,
    AnswerValueLoss,
    BandPenalty,
    BellmanRegression,
    FlowMatch,
    Guide,
    Likelihood,
    PlanValueLoss,
    QualityLoss,
    StepKL,
    TurnCriticLoss,
    ValueLoss,
)
from podium.parts.objective.plan_value import NOW as PLAN
from tests.batches import sampled, spoken


def listed(x: Any) -> Any:
    return pytest.approx(x, abs=1e-6)


def doubles(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def test_the_value_of_an_answer_moves_by_a_huber_loss_near_the_old_one() -> None:
    class Known(AnswerValueLoss):
        def value(self, batch: Batch) -> torch.Tensor:
            return doubles(2.0, 0.1, 3.0, -2.0)

    columns = {"rollout.value": doubles(0.0, 0.0, 2.9, 0.0), "rollout.reward.normalized": doubles(0.0, 0.0, 3.0, 0.0)}
    loss = Known(clip=0.25, delta=0.5).loss(sampled([0.0] * 4, [0] * 4, "a").with_columns(columns))
    # Huber: e²/2 up to ½, then ½·(|e| − ¼). Errors 2 and ¼ (clipped), 0.1 twice, 0 twice, −2 and −¼.
    far = (0.5 * 1.75 + 0.25**2 / 2) / 2
    assert loss.tolist() == listed([far, 0.005, 0.0, far])


def test_the_value_of_a_token_is_clipped_about_the_old_one() -> None:
    batch = spoken([[0.0] * 3], [1.0])
    columns = {
        "token.now.value": doubles(2.0, -2.0, 0.1),
        "token.old.value": doubles(0.0, 0.0, 0.0),
        "token.return": doubles(2.0, -2.0, 0.0),
    }
    loss = ValueLoss(clip=0.5).loss(batch.with_columns(columns))
    assert loss.tolist() == listed([1.125, 1.125, 0.005])  # ½·1.5², on both sides
    assert ValueLoss(clip=None).loss(batch.with_columns(columns)).tolist() == listed([0.0, 0.0, 0.005])


def test_a_penalty_may_be_weighted_by_a_column() -> None:
    batch = spoken([[0.0, 0.0]], [1.0], ref_logp=[[-2.0, -1.0]])
    batch = batch.with_columns({"token.now.logp": doubles(-1.0, -3.0), "rollout.weighing": doubles(4.0)})
    assert KL("k1").loss(batch).tolist() == listed([1.0, -2.0])
    assert float(KL("k1", weight="rollout.weighing")(batch)) == pytest.approx((4.0 - 8.0) / 2)
    assert Likelihood().loss(batch).tolist() == listed([1.0, 3.0])
    assert float(Likelihood(weight="rollout.weighing")(batch)) == pytest.approx((4.0 + 12.0) / 2)


def test_the_bellman_target_does_not_pull_beyond_the_clip() -> None:
    class Known(BellmanRegression):
        def q(self, batch: Batch) -> torch.Tensor:
            return batch["token.q"]

        def target(self, batch: Batch) -> torch.Tensor:
            return batch["token.y"]

    q = [1.0, -1.0, 1.0, -1.0, 0.0, 1.0, -1.0]
    y = [2.0, -2.0, -2.0, 2.0, 3.0, 1.0, -1.0]
    batch = spoken([[0.0] * 7], [1.0]).with_columns({"token.q": doubles(*q), "token.y": doubles(*y)})
    assert Known().loss(batch).tolist() == listed([1.0, 1.0, 9.0, 9.0, 9.0, 0.0, 0.0])
    clipped = Known(clip=0.5).loss(batch).tolist()
    high, low = math.log(1.5), math.log(0.5)
    assert clipped == listed([(high - 2) ** 2, (low + 2) ** 2, 9.0, 9.0, 9.0, 0.0, 0.0])


def test_a_band_penalises_what_is_outside() -> None:
    batch = spoken([[0.0] * 3], [1.0])
    columns = {
        "token.now.entropy": doubles(1.0, 2.0, 5.0),
        "token.band.low": doubles(1.5, 1.5, 1.5),
        "token.band.high": doubles(3.0, 3.0, 3.0),
        "token.band.centre": doubles(2.0, 2.0, 2.0),
    }
    assert BandPenalty(penalty=0.5, phase=2.0).loss(batch.with_columns(columns)).tolist() == listed([1.0, 0.0, 1.0])
    hinge = BandPenalty(penalty=0.5, phase=2.0, kind="hinge").loss(batch.with_columns(columns)).tolist()
    assert hinge == listed([0.25, 0.0, 1.0])


def test_the_critic_of_turns_sums_the_errors_of_its_heads() -> None:
    class Known(TurnCriticLoss):
        def errors(self, batch: Batch) -> dict[str, torch.Tensor]:
            return {"q1": doubles(1.0, 2.0), "v1": doubles(10.0, 20.0)}

    batch = Batch.from_rollouts([Rollout(0, [Turn((1,)), Turn((1,))])], dtype=torch.float64)
    assert Known().loss(batch).tolist() == [11.0, 22.0]


def test_the_flow_error_is_the_loss() -> None:
    part = FlowMatch()
    batch = spoken([[0.0, 0.0]], [1.0]).with_columns({part.needs[0]: doubles(0.5, 2.0)})
    assert part.loss(batch).tolist() == [0.5, 2.0]


def test_a_reward_at_the_threshold_is_wrong() -> None:
    batch = spoken([[0.0], [0.0]], [0.5, 0.75])
    columns = {
        "token.now.logp": doubles(-1.0, -1.0),
        "token.expert.logp": doubles(-3.0, -3.0),
        "token.advantage": doubles(2.0, 2.0),
    }
    # Two nats above the expert: wrong pushes down by 2·2, right is beyond it and pushes by a quarter of that.
    loss = Guide(leak=0.25, threshold=0.5).loss(batch.with_columns(columns))
    assert loss.tolist() == listed([4.0, -1.0])


def test_plan_values_regress_where_their_kind_begins() -> None:
    def turn(switch: bool) -> Turn:
        columns = {"switch": switch, "low.return": 1.0, "high.return": 2.0, "switch.return": 3.0}
        return Turn([1, 1, 1], tokens={"plan_low": [False, True, False]}, columns=columns)

    batch = Batch.from_rollouts([Rollout(0, [turn(False), turn(True), turn(False)])], dtype=torch.float64)
    known = {"low": 5.0, "high": 7.0, "switch": 9.0}
    values = {PLAN[name]: torch.full((9,), x, dtype=torch.float64) for name, x in known.items()}
    loss = PlanValueLoss().loss(batch.with_columns(values)).reshape(3, 3)
    # ½·6² for the switch at the first token of a turn, and ½·5² for the subgoal where one begins; ½·4² after it.
    assert loss.tolist() == [listed([30.5, 8.0, 0.0]), listed([30.5, 8.0, 0.0]), listed([18.0, 8.0, 0.0])]


def test_quality_is_a_cross_entropy() -> None:
    part = QualityLoss()
    batch = spoken([[0.0], [0.0]], [1.0, 0.0]).with_columns({part.needs[1]: doubles(math.log(3), math.log(3))})
    assert part.loss(batch).tolist() == listed([-math.log(0.75), -math.log(0.25)])


def test_gaussian_steps_are_held_to_those_of_the_reference() -> None:
    """Squares of 1 and 4, and of 0 and 4, over two pixels and 2σ²; then of 1 and 4, one pixel each."""
    part, batch = StepKL(), spoken([[0.0, 0.0]], [0.0])
    now, anchor, std = part.needs
    deviation = {std: doubles(0.5, 2.0)}
    pictures = {now: torch.stack([doubles(1.0, 3.0), doubles(0.0, 0.0)])}
    references = {anchor: torch.stack([doubles(0.0, 1.0), doubles(0.0, 2.0)])}
    found = part.loss(batch.with_columns({**pictures, **references, **deviation}))
    assert found.tolist() == listed([2.5 / 0.5, 2.0 / 8.0])
    single = {now: doubles(1.0, 3.0), anchor: doubles(0.0, 1.0)}
    assert part.loss(batch.with_columns({**single, **deviation})).tolist() == listed([1.0 / 0.5, 4.0 / 8.0])
