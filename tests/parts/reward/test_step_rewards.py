"""Implicit process rewards inside one answer: by step, and for choosing among answers."""

from __future__ import annotations

import pytest
import torch

from podium.core.batch import Batch
from podium.parts.advantage import TwoSources
from podium.parts.metric.process import BestChoice, BestOfN
from podium.parts.reward import StepRewards

C = [[1.0, 2.0, 4.0, 8.0], [1.0, -3.0, 0.0, 0.0]]  # the second answer has two tokens
MASK = [[1, 1, 1, 1], [1, 1, 0, 0]]
ENDS = [[False, True, False, False], [False, False, False, False]]


def batch() -> Batch:
    columns = {
        "token.reward.process": torch.tensor(C, dtype=torch.float64),
        "token.reward_model.logp": torch.tensor(C, dtype=torch.float64),
        "token.ref.logp": torch.zeros(2, 4, dtype=torch.float64),
        "token.step_end": torch.tensor(ENDS),
        "rollout.reward": torch.tensor([1.0, 0.0], dtype=torch.float64),
    }
    return Batch.from_padded(torch.tensor(MASK), [0, 0], columns)


def test_a_step_s_rewards_stand_at_its_last_token() -> None:
    found = StepRewards(ends="token.step_end")(batch())["token.reward.process"]
    assert found.tolist() == [0.0, 3.0, 0.0, 12.0, 0.0, -2.0]


def test_without_steps_the_whole_answer_is_one() -> None:
    assert StepRewards()(batch())["token.reward.process"].tolist() == [0.0, 0.0, 0.0, 15.0, 0.0, -2.0]


def test_an_answer_is_scored_by_its_weakest_step() -> None:
    # Partial sums at the ends of steps: 3 and 15 in the first answer; the second ends with 1 − 3 = −2, its only step.
    texts = {"turn.text": ("a\nbc", "de"), "token.end": torch.tensor([1.0, 2.0, 3.0, 4.0, 1.0, 2.0])}
    scores = BestOfN(coefficient=0.5, pattern=r"\n")(batch().with_columns(texts))["rollout.best_of_n"]
    assert scores.tolist() == [1.5, -1.0]


def test_process_rewards_are_bounded_by_their_largest_sum() -> None:
    # Sums over what is to come: 15, 14, 12, 8 and −2, −3: the largest is 15. Bounded, the two rollouts have
    # c' = (2 c − Σ of their means) / 1 with means 15/4 and −1: 2 c − 2.75, each divided by 15 + 1e-6.
    plain, bounded = (TwoSources(bounded=b)(batch())["token.return"] for b in (False, True))
    outcome = torch.tensor([1.0] * 4 + [-1.0] * 2, dtype=torch.float64)  # leave-one-out: 1 − 0 and 0 − 1
    torch.testing.assert_close(bounded - outcome, (plain - outcome) / (15 + 1e-6))
    assert plain.tolist()[3] == pytest.approx(2 * 8 - 2.75 + 1)


def test_the_best_answer_and_the_weighted_vote() -> None:
    columns = {
        "rollout.answer": ("7", "8", "8", "9"),
        "rollout.best_of_n": torch.tensor([0.4, 0.1, 0.2, -1.0], dtype=torch.float64),
    }
    made = Batch.from_rewards(torch.tensor([0.0, 1.0, 1.0, 0.0], dtype=torch.float64), [0] * 4, columns)
    found = BestChoice()(made)
    # 7 has the best single score and is wrong; 8 has σ(0.1) + σ(0.2) > σ(0.4) and is right.
    assert found["group.best_of_n.right"].tolist() == [0.0]
    assert found["group.best_of_n.vote"].tolist() == [1.0]
