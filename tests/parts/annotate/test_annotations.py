"""Annotations, by numbers worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from podium.core.batch import Batch
from podium.core.build import Rollout, Turn
from podium.core.columns import Purpose
from podium.parts.annotate import (
    AnswerValue,
    FeedbackGain,
    GreedyBaseline,
    MarkDegenerate,
    MarkParsed,
    PlanValues,
    ReadTags,
    ReferencePower,
    ThinkingMoments,
)
from podium.parts.annotate.plan_values import OLD as PLAN
from tests.batches import sampled, spoken


def test_the_value_of_an_answer_is_that_at_its_last_token() -> None:
    part = AnswerValue(softmin=None)
    batch = spoken([[0.0, 0.0], [0.0]], [1.0, 0.0])
    found = part(batch.with_columns({part.needs[0]: torch.tensor([1.0, 2.0, 5.0], dtype=torch.float64)}))
    assert found["rollout.value"].tolist() == [2.0, 5.0]


def test_tags_are_read_in_order_of_precedence() -> None:
    rows = [Turn((1,), columns={"text": text}) for text in ("<explore> x", "<explore> <planning>", "none")]
    found = ReadTags()(Batch.from_rollouts([Rollout(0, rows)], dtype=torch.float64))
    assert found["step.tag"][:2] == ("explore", "planning")
    assert found["step.tag"][2] not in ("explore", "planning", "reflection")


def test_feedback_gains_need_feedback_and_an_action_after_it() -> None:
    part = FeedbackGain()
    rows = [
        Turn((1,) * n, columns={"informed": informed}) for n, informed in ((1, False), (1, True), (1, False), (0, True))
    ]
    batch = Batch.from_rollouts([Rollout(0, rows)], dtype=torch.float64)
    logp, blind = torch.tensor([0.0, -1.5, -4.0]), torch.tensor([9.0, -3.0, 9.0, -7.0])
    batch = batch.with_columns({part.needs[0]: logp.double(), part.needs[1]: blind.double()})
    found = part(batch)
    # Action 2 is likelier by −1.5 + 3 with the feedback; the others saw none, or have no token.
    assert found["turn.gain"].tolist() == pytest.approx([1.5, 0.0, 0.0, 0.0])
    assert found["rollout.gain"].tolist() == pytest.approx([1.5])


def test_the_greedy_baseline_is_a_mean() -> None:
    purpose = torch.tensor([Purpose.train, Purpose.baseline, Purpose.baseline])
    found = GreedyBaseline()(sampled([1.0, 0.5, 0.0], [0, 0, 0], "a", purpose=purpose))
    assert found["group.baseline"].tolist() == [0.25]


def test_the_power_follows_the_reward_between_0_and_1() -> None:
    found = ReferencePower(low=0.25, high=0.75)(sampled([-1.0, 0.5, 3.0], [0, 0, 0], "a"))
    assert found["rollout.power"].tolist() == [0.25, 0.5, 0.75]


def test_an_answer_is_degenerate_if_it_is_repetitive_or_garbled_or_cut() -> None:
    def row(ids: list[int], text: str, cut: bool) -> Rollout:
        return Rollout(0, [Turn(ids)], columns={"reward": 0.0, "text": text, "truncated": cut})

    rows = [row([1, 2] * 4, "fine", False), row([1, 2, 3], "fine", False), row([1, 2, 3], "fine", True)]
    found = MarkDegenerate(length=2, times=4)(Batch.from_rollouts(rows, dtype=torch.float64))
    assert found["rollout.degenerate"].tolist() == [True, False, True]


def test_moments_are_windows_at_a_trigger_above_the_threshold() -> None:
    part = ThinkingMoments(window=2)
    batch = spoken([[1.0, 3.0, 1.0, 1.0], [4.0, 4.0, 4.0, 3.0]], [1.0, 0.0])
    columns: dict[str, Any] = {
        "token.trigger": torch.tensor([True] * 4 + [False] * 4),
        "batch.moments.threshold": torch.tensor([2.0], dtype=torch.float64),
    }
    # Means of the two tokens that follow: 2 and 1, and 4 and 3.5; the others open none. At least 2 is high.
    found = part(batch.with_columns(columns))
    assert found["rollout.moments"].tolist() == [1.0, 0.0]
    assert found["rollout.moments.below"].tolist() == [1.0, 0.0]
    assert found["rollout.moments.excess"].tolist() == [0.0, 0.0]
    assert found["rollout.moments.quantile"].tolist() == pytest.approx([1.95, 3.975])
    columns["batch.moments.threshold"] = torch.tensor([1.25], dtype=torch.float64)
    assert part(batch.with_columns(columns))["rollout.moments.excess"].tolist() == [0.75, 0.0]
    # Without a threshold yet: the median of the rollouts' quantiles, 2.9625.
    columns["batch.moments.threshold"] = torch.tensor([float("nan")], dtype=torch.float64)
    columns["token.trigger"] = torch.ones(8).bool()
    assert part(batch.with_columns(columns))["rollout.moments"].tolist() == [0.0, 2.0]
    # A rollout without a complete window has the quantile 0.
    short = spoken([[4.0], [1.0, 3.0, 3.0]], [1.0, 0.0]).with_columns(
        {**columns, "token.trigger": torch.ones(4).bool()}
    )
    assert part(short)["rollout.moments.quantile"].tolist() == pytest.approx([0.0, 3.0])
    # Where no rollout counts there is no median, and the threshold is 0.
    probes = spoken([[0.0, 0.5, 0.5]], [1.0], probes=(0,)).with_columns(
        {**columns, "token.trigger": torch.ones(3).bool()}
    )
    assert part(probes)["rollout.moments"].tolist() == [1.0]


def test_the_values_of_a_plan_are_read_where_their_kind_stands() -> None:
    rows = [Turn([1, 1, 1], tokens={"plan_low": [False, True, False]}) for _ in range(2)]
    batch = Batch.from_rollouts([Rollout(0, rows)], dtype=torch.float64)
    values = {PLAN[name]: torch.arange(6).double() + 10 * i for i, name in enumerate(("low", "high", "switch"))}
    found = PlanValues()(batch.with_columns(values))
    assert found["turn.low.value"].tolist() == [1.0, 4.0]
    assert found["turn.high.value"].tolist() == [10.0, 13.0]
    assert found["turn.switch.value"].tolist() == [20.0, 23.0]


def test_a_rollout_is_parsed_if_all_its_turns_are_and_formatted_if_it_also_answers() -> None:
    rows = [([True, True], "4"), ([True, False], "4"), ([True], "")]
    rollouts = [
        Rollout(0, [Turn((1,), columns={"valid": valid}) for valid in turns], columns={"answer": answer})
        for turns, answer in rows
    ]
    found = MarkParsed()(Batch.from_rollouts(rollouts, dtype=torch.float64))
    assert found["rollout.parsed"].tolist() == [1.0, 0.0, 1.0]
    assert found["rollout.formatted"].tolist() == [1.0, 0.0, 0.0]
