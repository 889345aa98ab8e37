"""Rewards by how sure a decision is, and by what a listener makes of its reasoning, by hand."""

from __future__ import annotations

import math

import pytest
import torch

from podium.core.batch import Batch
from podium.core.build import Rollout, Turn
from podium.core.errors import PodiumError
from podium.parts.annotate import FirstTokenEntropy, OptionEntropy
from podium.parts.metric import DecisionCertainty
from podium.parts.reward import DecisiveReward, ListenerReward


def rollouts(rewards: list[float], **columns: object) -> Batch:
    named = {f"rollout.{name}": x for name, x in columns.items()}
    return Batch.from_rewards(torch.tensor(rewards, dtype=torch.float64), [0] * len(rewards), named)


def options(p: float) -> tuple[tuple[str, float], ...]:
    return ("yes", math.log(p)), ("no", math.log(1 - p))


# The worked example of the paper's settings: right or not, the probability of the answer, and what it earns.
EXAMPLE = [
    *[(1, 0.99, 1.2), (1, 0.95, 1.10679), (1, 0.9, 1.01549), (1, 0.7, 1.0)],
    *[(0, 0.999, 0.05), (0, 0.95, 0.11674), (0, 0.9, 0.26636), (0, 0.7, 0.3)],
]


def decided(rows: list[tuple[int, float, float]]) -> Batch:
    count = len(rows)
    batch = rollouts(
        [float(right) for right, *_ in rows],
        options=[options(p) for _, p, _ in rows],
        decided=[True] * count,
        explained=[True] * count,
        correct=[bool(right) for right, *_ in rows],
    )
    return batch.with_columns(OptionEntropy()(batch))


def test_the_worked_example_of_sure_and_unsure_decisions() -> None:
    found = DecisiveReward()(decided(EXAMPLE))["rollout.reward"].tolist()
    assert found == pytest.approx([earned for *_, earned in EXAMPLE], abs=1e-5)


def test_any_right_decision_earns_more_than_any_wrong_one() -> None:
    rows = [(right, p, 0.0) for right in (1, 0) for p in (0.5, 0.6, 0.8, 0.99, 0.9999)]
    found = DecisiveReward()(decided(rows))["rollout.reward"]
    assert found[:5].min() > found[5:].max()


def test_wrong_decisions_of_a_group_that_is_all_wrong_differ() -> None:
    found = DecisiveReward()(decided([(0, 0.99, 0.0), (0, 0.6, 0.0)]))["rollout.reward"]
    assert found[0] < found[1]


def test_no_decision_and_no_weight_leave_accuracy_and_format() -> None:
    batch = decided(EXAMPLE).with_columns({"rollout.decided": torch.zeros(8, dtype=torch.bool)})
    plain = DecisiveReward(weight=0.0)(decided(EXAMPLE))["rollout.reward"]
    assert DecisiveReward()(batch)["rollout.reward"].tolist() == plain.tolist() == pytest.approx([1.0] * 4 + [0.1] * 4)


def test_the_first_marked_token_decides_and_uniform_classes_are_wholly_unsure() -> None:
    uniform = torch.full((4,), 0.25, dtype=torch.float64).log()
    sure = torch.tensor([1.0, 1e-30, 1e-30, 1e-30], dtype=torch.float64).log()
    top = torch.stack([torch.stack([torch.arange(4.0), x], -1) for x in (sure, uniform, sure)])[None]
    part = FirstTokenEntropy(k=4)
    marked = torch.tensor([[False, True, True]])
    (signal,) = (need.column for need in part.needs if not isinstance(need, str))
    batch = Batch.from_padded(torch.ones(1, 3, dtype=torch.float64), [0], {"token.decision": marked, signal: top})
    found = part(batch)
    assert float(found["rollout.decision.nats"]) == pytest.approx(math.log(4))
    assert float(found["rollout.decision.entropy"]) == pytest.approx(1.0)


def test_certainty_is_apart_for_right_and_wrong_and_has_no_gap_where_one_is_missing() -> None:
    found = DecisionCertainty()(decided([(1, 0.99, 0.0), (0, 0.5, 0.0)]))
    assert float(found["batch.decision.gap"]) == pytest.approx(
        float(found["batch.decision.wrong"]) - float(found["batch.decision.right"])
    )
    assert float(DecisionCertainty()(decided([(1, 0.99, 0.0)]))["batch.decision.gap"]) == 0


def heard(p: list[float], answers: list[str], gold: str = "yes") -> Batch:
    return rollouts(
        [0.0] * len(p),
        options=[options(x) for x in p],
        explained=[True] * len(p),
        answer=answers,
        reference_answer=[gold] * len(p),
        correct=[answer == gold for answer in answers],
    )


def test_the_worked_example_of_a_listener() -> None:
    found = ListenerReward()(heard([0.9, 0.3, 0.6, 0.05], ["yes", "yes", "no", "no"]))
    assert found["rollout.reward"].tolist() == pytest.approx([1.95, 1.65, 1.3, 1.025])
    assert found["rollout.disagrees"].tolist() == [False, True, True, False]


def test_right_answers_are_ranked_by_how_convincing_they_are_and_wrong_ones_stay_below() -> None:
    convincing, unconvincing, wrong = ListenerReward()(heard([0.9, 0.2, 0.9], ["yes", "yes", "no"]))["rollout.reward"]
    assert convincing > unconvincing > wrong


def test_a_gated_listener_pays_right_answers_alone() -> None:
    found = ListenerReward(gated=True)(heard([0.9, 0.9], ["yes", "no"]))
    assert found["rollout.reward.listener"].tolist() == pytest.approx([0.45, 0.0])


def test_a_right_answer_that_is_no_option_is_refused_in_words() -> None:
    with pytest.raises(PodiumError, match="none of the choices yes, no"):
        ListenerReward()(heard([0.5], ["one"], gold="one"))


def test_the_entropy_of_the_first_token_of_an_answer_is_a_share_of_the_largest() -> None:
    """Of ¾ and ¼ it is 0.5623 of ln 2; of 0.4 and 0.4, which leave something out, 0.733: more than ln 2."""
    part = FirstTokenEntropy(k=2)
    rows = [((0.5, 0.5), (0.75, 0.25), (0.5, 0.5)), ((0.5, 0.5), (0.5, 0.5), (0.4, 0.4)), ((0.5, 0.5),) * 3]
    marked = [[False, True, True], [False, False, True], [False, False, False]]
    turns = [Turn([1] * 3, tokens={"decision": row}) for row in marked]
    batch = Batch.from_rollouts([Rollout(0, [turn]) for turn in turns], dtype=torch.float64)
    top = torch.tensor([[[i, math.log(p)] for i, p in enumerate(pair)] for row in rows for pair in row]).double()
    found = part(batch.with_columns({part.needs[1]: top}))
    first, second = -0.75 * math.log(0.75) - 0.25 * math.log(0.25), -0.8 * math.log(0.4)
    assert found["rollout.decision.nats"].tolist() == pytest.approx([first, second, 0.0], abs=1e-6)
    assert found["rollout.decision.entropy"].tolist() == pytest.approx([first / math.log(2), 1.0, 0.0], abs=1e-6)


def test_certainty_is_told_apart_for_right_and_wrong_decisions() -> None:
    rows = {
        "correct": torch.tensor([True, True, False, False, True]),
        "decided": torch.tensor([True, True, True, True, False]),
        "decision.nats": torch.tensor([0.1, 0.3, 0.6, 0.4, 9.0], dtype=torch.float64),
    }
    found = DecisionCertainty()(rollouts([0.0] * 5, **rows))
    names = ("right", "wrong", "gap")
    assert [float(found[f"batch.decision.{name}"]) for name in names] == pytest.approx([0.2, 0.5, 0.3])
    for all_right, expected in ((True, [0.35, 0.0, 0.0]), (False, [0.0, 0.35, 0.0])):
        found = DecisionCertainty()(rollouts([0.0] * 5, **{**rows, "correct": torch.full((5,), all_right)}))
        assert [float(found[f"batch.decision.{name}"]) for name in names] == pytest.approx(expected)
