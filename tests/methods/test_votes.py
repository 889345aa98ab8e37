"""TTRL: the majority as the label."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import yaml
from torch.testing import assert_close

from podium import methods
from podium.core.batch import Batch
from podium.core.columns import Purpose
from podium.method import Method
from podium.parts.reward import AnswerEntropy, Majority, VoteShare
from tests.methods.support import short_run

ANSWERS = ["12", "12", "7", "12", "30", "7", "12", "5"]


def voted(answers: list[str], truth: str = "12", trained: int | None = None) -> Batch:
    """One group after TTRL's rewards, advantages and metrics."""
    trained = len(answers) if trained is None else trained
    method = methods.ttrl(votes=len(answers), trained=trained)
    columns = {
        "rollout.answer": answers,
        "rollout.correct": [a == truth for a in answers],
        "rollout.purpose": [Purpose.train if i < trained else Purpose.vote for i in range(len(answers))],
    }
    batch = Batch.from_rewards(torch.zeros(len(answers), dtype=torch.float64), [0] * len(answers), columns)
    for part in (*method.annotate, *method.reward, method.advantage, *method.metric):
        batch = batch.with_columns(part(batch))
    return batch


def test_worked_example() -> None:
    batch = voted(ANSWERS)
    assert batch["group.majority"] == ("12",)
    assert batch["rollout.reward"].tolist() == [1, 1, 0, 1, 0, 0, 1, 0]
    assert batch["rollout.advantage"].abs().tolist() == pytest.approx([0.935413] * 8, abs=1e-6)
    assert float(batch["group.vote.reward_accuracy"]) == 1.0
    wrong = voted(ANSWERS, truth="7")  # the label is wrong, and a quarter of the rewards are right all the same
    assert float(wrong["group.vote.label_accuracy"]) == 0.0
    assert float(wrong["group.vote.reward_accuracy"]) == 0.25


def test_with_a_right_vote_it_is_supervised_grpo() -> None:
    batch = voted(ANSWERS)
    labelled = batch.with_columns({"rollout.reward": batch["rollout.correct"].double()})
    assert_close(batch["rollout.advantage"], methods.grpo().advantage(labelled)["rollout.advantage"])


def test_rewards_do_not_depend_on_how_answers_are_named_nor_on_the_truth() -> None:
    names = {"12": "a", "7": "b", "30": "c", "5": "d"}
    renamed = voted([names[a] for a in ANSWERS], truth="a")
    assert torch.equal(voted(ANSWERS)["rollout.reward"], renamed["rollout.reward"])
    assert torch.equal(voted(ANSWERS)["rollout.reward"], voted(ANSWERS, truth="5")["rollout.reward"])


def test_a_tie_goes_to_the_answer_given_first_and_no_answer_has_no_vote() -> None:
    assert voted(["7", "12", "12", "7"])["group.majority"] == ("7",)
    assert voted(["", "", "", "7"])["group.majority"] == ("7",)


def test_a_group_without_any_answer_is_not_trained() -> None:
    batch = voted(["", "", ""])
    assert batch["rollout.reward"].tolist() == [0, 0, 0]
    assert not batch.trained("rollout", empty=True).any()


def test_all_vote_but_the_first_are_trained_and_compared_with_each_other() -> None:
    batch = voted(["1", "2", "3", "3", "3", "1"], trained=3)
    assert batch["group.majority"] == ("3",)
    assert batch["rollout.reward"][:3].tolist() == [0, 0, 1]
    own = Batch.from_rewards(torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64), [0, 0, 0])
    assert_close(batch["rollout.advantage"][:3], methods.grpo().advantage(own)["rollout.advantage"])
    assert voted(["1", "2"], trained=1)["rollout.advantage"][0] == 0


@pytest.mark.parametrize(("start", "right"), [(0.5, True), (0.3, False)])
def test_repeated_updates_sharpen_the_mode_whether_it_is_right_or_not(start: float, right: bool) -> None:
    """A categorical policy over three answers, trained on the vote of its own samples."""
    logits = torch.tensor([start, 0.4, 1 - start - 0.4], dtype=torch.float64).log()
    for step in range(60):
        sampled = torch.multinomial(logits.softmax(0), 64, True, generator=torch.Generator().manual_seed(step))
        batch = voted([str(i) for i in sampled.tolist()], truth="0")
        logits.requires_grad_()
        loss = -(batch["rollout.advantage"] * logits.log_softmax(0)[sampled]).mean()
        (slope,) = torch.autograd.grad(loss, logits)
        logits = (logits - slope).detach()
    p = float(logits.softmax(0)[0])
    assert p > 0.99 if right else p < 0.01


def test_order_of_rows_does_not_matter() -> None:
    batch = Batch.from_rewards(torch.zeros(4), [0] * 4, {"rollout.answer": ["b", "a", "a", "b"]})
    turned = batch.take("rollout", torch.tensor([3, 2, 1, 0]))
    assert Majority()(batch)["group.majority"] == Majority()(turned)["group.majority"] == ("b",)


def test_it_trains_and_reports_how_good_the_vote_was(tmp_path: Path) -> None:
    line = short_run(methods.ttrl(votes=8, trained=4), tmp_path / "run").metrics[-1]
    assert line["rollouts"] == 32
    assert line["grad_norm.policy"] > 0
    assert {"vote.label_accuracy", "vote.majority_ratio", "vote.trained.reward_accuracy"} <= set(line)


def test_the_soft_vote_is_the_share_and_the_entropy_penalty_is_relative_to_an_even_split() -> None:
    columns = {"rollout.answer": ["a", "a", "b", ""]}
    batch = Batch.from_rewards(torch.zeros(4, dtype=torch.float64), [0] * 4, columns)
    batch = batch.with_columns(VoteShare()(batch))
    assert batch["rollout.reward"].tolist() == pytest.approx([2 / 3, 2 / 3, 1 / 3, 0])
    # H = −(2/3 ln 2/3 + 1/3 ln 1/3) over ln 2; without one of the two "a" the split is even, without "b" there is none.
    entropy = 0.9182958340544896
    penalty = AnswerEntropy(1.0)(batch)["rollout.reward"] - batch["rollout.reward"]
    assert penalty.tolist() == pytest.approx([-entropy] * 4)
    own = AnswerEntropy(1.0, of="own")(batch)["rollout.reward"] - batch["rollout.reward"]
    assert own.tolist() == pytest.approx([1 - entropy, 1 - entropy, -entropy, 0])


OLD_FORMS = [
    ({}, (Majority(),)),
    ({"soft": False, "weight": 2.0, "entropy_weight": 0.0, "entropy_of": "group"}, (Majority(2.0),)),
    ({"soft": True, "empty": "votes"}, (VoteShare(empty="votes"),)),
    (
        {"soft": True, "entropy_weight": 0.5, "entropy_of": "own", "empty": "votes"},
        (VoteShare(empty="votes"), AnswerEntropy(0.5, "own", empty="votes")),
    ),
    ({"entropy_weight": 0.5}, (Majority(), AnswerEntropy(0.5))),
]


@pytest.mark.parametrize(("settings", "wanted"), OLD_FORMS)
def test_a_majority_of_the_first_format_loads_as_the_parts_it_was_split_into(settings: object, wanted: object) -> None:
    text = yaml.safe_dump({"name": "x", "reward": [{"Majority": settings}]})
    assert Method.from_yaml(text).reward == wanted
