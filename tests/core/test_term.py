"""Terms: who is in them, what they divide by, and the values of each loss by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from podium import methods
from podium.core import Batch
from podium.core.errors import PodiumError
from podium.core.signal import Signal
from podium.core.term import Aggregate, Term
from podium.parts.objective import (
    KL,
    Clip,
    Entropy,
    GroupSoftmax,
    Likelihood,
    PolicyGradient,
    RolloutLogistic,
    ValueLoss,
)
from tests.core.hierarchy import Hierarchy, close, hierarchies, mean, tensor

NOW = Signal("logp", of="now", grad=True)


class Plain(Term):
    """The column `token.x`."""

    needs = ("token.x",)  # type: ignore[assignment]

    def loss(self, batch: Batch) -> Tensor:
        x: Tensor = batch["token.x"]
        return x


def lengths(*numbers: int, **columns: Any) -> Batch:
    """Rollouts of these lengths, two to a group, with `token.x` = 1, 2, 3, …"""
    mask = torch.arange(max(numbers))[None] < torch.tensor(numbers)[:, None]
    batch = Batch.from_padded(mask, torch.arange(len(numbers)) // 2)
    found = {name.replace("__", "."): value for name, value in columns.items()}
    return batch.with_columns({"token.x": torch.arange(1.0, sum(numbers) + 1).double()} | found)


# -- aggregation -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("token mean", 21 / 6),
        ("token sum", 21),
        ("token sum / 10", 2.1),
        ("token mean, rollout mean", (2 + 4.5 + 6) / 3),
        ("token sum, rollout mean", (6 + 9 + 6) / 3),
        ("token sum / 4, rollout mean of all", (6 + 9 + 6) / 4 / 4),
        ("token sum, rollout sum / 7", 3),
        ("token mean, group mean", ((6 + 9) / 5 + 6) / 2),
        ("token mean, rollout mean, group mean", ((2 + 4.5) / 2 + 6) / 2),
        ("token mean, rollout sum, group mean", ((2 + 4.5) + 6) / 2),
        ("token mean, turn mean, rollout mean", (2 + 4.5 + 6) / 3),
    ],
)
def test_a_path_of_reduces_by_hand(path: str, expected: float) -> None:
    batch = lengths(3, 2, 1, 0)  # x: [1, 2, 3], [4, 5], [6], []; the last rollout is empty
    assert float(Plain(aggregate=Aggregate(path))(batch)) == pytest.approx(expected, rel=1e-12)


def test_keep_leaves_numerator_and_denominator_and_weight_stays_in_the_denominator() -> None:
    kept = lengths(3, 2, 1, 0, rollout__keep=torch.tensor([True, False, True, True]))
    assert float(Plain()(kept)) == pytest.approx((6 + 6) / 4)
    weighted = lengths(3, 2, 1, 0, rollout__weight=tensor([1.0, 0.0, 2.0, 1.0]))
    assert float(Plain()(weighted)) == pytest.approx((6 + 12) / 6)


def test_a_weight_of_one_term_leaves_the_others_and_the_denominator_alone() -> None:
    batch = lengths(3, 2, 1, 0, rollout__trust=tensor([1.0, 0.0, 2.0, 1.0]))
    assert float(Plain(weight="rollout.trust")(batch)) == pytest.approx((6 + 12) / 6)
    assert float(Plain()(batch)) == pytest.approx(21 / 6)
    both = batch.with_columns({"rollout.weight": tensor([0.5, 1.0, 1.0, 1.0])})
    assert float(Plain(weight="rollout.trust")(both)) == pytest.approx((3 + 12) / 6)


def test_a_weight_must_be_a_column_of_numbers_that_something_writes() -> None:
    batch = lengths(3, 2).with_columns({"rollout.name": ["a", "b"]})
    with pytest.raises(PodiumError, match=r"Plain\.weight = 'rollout\.name' must name a column of numbers"):
        Plain(weight="rollout.name")(batch)
    method = methods.get("sft").set("objective.Likelihood.weight", "rollout.nowhere")
    assert any("'rollout.nowhere', which nothing" in finding.message for finding in method.check(("task.solution",)))


def test_a_router_divides_by_its_members_or_by_all() -> None:
    chosen = torch.tensor([True, False, False, True, False, False])
    batch = lengths(3, 2, 1, 0, token__odd=chosen)
    assert float(Plain(where="token.odd")(batch)) == pytest.approx((1 + 4) / 2)
    assert float(Plain(where="token.odd", over="all")(batch)) == pytest.approx((1 + 4) / 6)
    per_rollout = Aggregate("token mean, rollout mean")
    assert float(Plain(where="token.odd", aggregate=per_rollout)(batch)) == pytest.approx((1 + 4) / 2)
    assert float(Plain(where="token.odd", over="all", aggregate=per_rollout)(batch)) == pytest.approx(
        (1 / 3 + 4 / 2) / 3
    )
    by_group = lengths(3, 2, 1, 0, group__hard=torch.tensor([False, True]))
    assert float(Plain(where="group.hard", coefficient=0.5)(by_group)) == pytest.approx(3)


def test_a_router_with_no_members_is_zero_not_nan() -> None:
    batch = lengths(3, 2, token__none=torch.zeros(5, dtype=torch.bool))
    assert float(Plain(where="token.none")(batch)) == 0


def test_an_infinite_loss_outside_the_term_does_not_enter() -> None:
    batch = lengths(2, 1, token__x=tensor([1.0, math.inf, 3.0]), token__fine=torch.tensor([True, False, True]))
    assert float(Plain(where="token.fine")(batch)) == 2


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("token.x", "Plain.where = 'token.x' must name a boolean column"),
        ("token.chosn", "no column 'token.chosn'. Did you mean 'token.chosen'"),
        ("rollout.name", "Plain.where = 'rollout.name' must name a boolean column"),
    ],
)
def test_a_router_by_something_that_is_no_truth_value_is_refused(where: str, message: str) -> None:
    batch = lengths(2, 1, token__chosen=torch.tensor([True, False, True]), rollout__name=["a", "b"])
    with pytest.raises(PodiumError, match=message):
        Plain(where=where)(batch)


def test_a_router_finer_than_its_term_is_refused() -> None:
    batch = lengths(2, 1, token__chosen=torch.tensor([True, False, True]), rollout__reward=tensor([1.0, 0.0]))
    with pytest.raises(PodiumError, match="'token' is not above 'rollout'"):
        RolloutLogistic(where="token.chosen").members(batch)


@given(hierarchies(), st.sampled_from(["token", "turn", "rollout", "group"]), st.booleans())
@settings(deadline=None, max_examples=60)
def test_the_mean_of_means_is_that_of_plain_python(h: Hierarchy, middle: str, routed: bool) -> None:
    x, keep, chosen = h.numbers("token"), h.mask("token"), h.mask("token")
    columns = {"token.x": tensor(x), "token.keep": torch.tensor(keep, dtype=torch.bool)}
    batch = h.batch(columns | {"token.chosen": torch.tensor(chosen, dtype=torch.bool)})
    members = [i for i in range(len(x)) if keep[i] and (chosen[i] or not routed)]
    path = "token mean" if middle == "token" else f"token mean, {middle} mean"
    found = Plain(where="token.chosen" if routed else None, aggregate=Aggregate(path))(batch)
    owner = h.link("token", middle)
    held = [[x[i] for i in members if owner[i] == up] for up in sorted({owner[i] for i in members})]
    assert float(found) == pytest.approx(mean([mean(values) for values in held]), rel=1e-12, abs=1e-12)


# -- losses by hand --------------------------------------------------------------------------------------------------


def one_rollout(*now: float, old: list[float], advantage: float = 1.0) -> Batch:
    n = len(now)
    columns = {
        "rollout.advantage": tensor([advantage]),
        "token.now.logp": tensor(list(now)).reshape(1, n),
        "token.old.logp": tensor(old).reshape(1, n),
        "token.sampler.logp": tensor(old).reshape(1, n) - 0.5,
        "token.ref.logp": tensor(old).reshape(1, n),
    }
    return Batch.from_padded(torch.ones(1, n), [0], columns)


def losses(term: Term, batch: Batch) -> list[float]:
    values: list[float] = term.loss(batch).tolist()
    return values


@pytest.mark.parametrize(
    ("term", "advantage", "expected"),
    [
        (PolicyGradient(ratio="none"), 2.0, [2 * 1.0, 2 * 2.0, 2 * 0.5]),
        (PolicyGradient(), 2.0, [-2 * math.exp(0.5), -2, -2 * math.exp(-0.25)]),
        (PolicyGradient(behaviour="sampler"), 2.0, [-2 * math.exp(1.0), -2 * math.exp(0.5), -2 * math.exp(0.25)]),
        (PolicyGradient(clip=Clip(0.2, 0.3)), 2.0, [-2 * 1.3, -2, -2 * math.exp(-0.25)]),
        (PolicyGradient(clip=Clip(0.2, 0.3)), -2.0, [2 * math.exp(0.5), 2, 2 * 0.8]),
        (PolicyGradient(clip=Clip(0.2, 0.3, dual=1.5)), -2.0, [3, 2, 2 * 0.8]),
        (PolicyGradient(clip=Clip(0.1, 0.3, kind="weight")), 2.0, [2 * 1.3 * 1, 2 * 2, 2 * 0.9 * 0.5]),
        (PolicyGradient(ratio="sequence"), 2.0, [-2 * math.exp(0.25 / 3)] * 3),
        (PolicyGradient(clamp=0.1), 2.0, [-2 * math.exp(0.1), -2, -2 * math.exp(-0.1)]),
        (KL("k1"), 1.0, [0.5, 0, -0.25]),
        (KL("k2"), 1.0, [0.125, 0, 0.03125]),
        (KL("k3"), 1.0, [math.exp(-0.5) + 0.5 - 1, 0, math.exp(0.25) - 0.25 - 1]),
        (KL("abs", limit=0.3), 1.0, [0.3, 0, 0.25]),
        (Likelihood(), 1.0, [1, 2, 0.5]),
    ],
)
def test_the_surrogate_and_the_anchors_by_hand(term: Term, advantage: float, expected: list[float]) -> None:
    batch = one_rollout(-1.0, -2.0, -0.5, old=[-1.5, -2.0, -0.25], advantage=advantage)
    assert losses(term, batch) == pytest.approx(expected, rel=1e-12)


def test_each_token_of_a_span_gets_its_own_share_of_the_gradient() -> None:
    batch = one_rollout(-1.0, -2.0, old=[-1.5, -2.5])
    logp = batch[NOW].clone().requires_grad_()
    PolicyGradient(ratio="sequence", aggregate=Aggregate("token mean, rollout mean"))(
        batch.with_columns({NOW: logp})
    ).backward()  # type: ignore[no-untyped-call]
    assert logp.grad is not None
    close(logp.grad, [-math.exp(0.5) / 2] * 2)


def test_a_clipped_token_has_no_gradient_unless_the_weight_is_what_is_clipped() -> None:
    batch = one_rollout(-1.0, -2.0, old=[-1.5, -2.0])
    for clip, expected in ((Clip(0.2, 0.2), [0, -0.5]), (Clip(0.2, 0.2, kind="weight"), [-1.2 / 2, -0.5])):
        logp = batch[NOW].clone().requires_grad_()
        PolicyGradient(clip=clip)(batch.with_columns({NOW: logp})).backward()  # type: ignore[no-untyped-call]
        assert logp.grad is not None
        close(logp.grad, expected)


def test_clip_bounds_may_be_columns() -> None:
    batch = one_rollout(-1.0, -1.0, old=[-1.5, -1.5]).with_columns({"token.high": tensor([0.1, 0.9])})
    term = PolicyGradient(clip=Clip(0.2, "token.high"))
    assert losses(term, batch) == pytest.approx([-1.1, -math.exp(0.5)])


def test_value_loss_takes_the_worse_of_the_plain_and_the_clipped_error() -> None:
    columns = {name: tensor(x)[None] for name, x in (("token.now.value", [1.0, 0.1]), ("token.old.value", [0.0, 0.0]))}
    batch = Batch.from_padded(torch.ones(1, 2), [0], columns | {"token.return": tensor([2.0, 1.0])[None]})
    assert losses(ValueLoss(0.5), batch) == pytest.approx([max(1.0, 1.5**2) / 2, 0.9**2 / 2])
    assert losses(ValueLoss(None), batch) == pytest.approx([0.5, 0.405])


def test_entropy_is_a_bonus() -> None:
    batch = Batch.from_padded(torch.ones(1, 2), [0], {"token.now.entropy": tensor([1.0, 3.0])[None]})
    assert float(Entropy(coefficient=0.1)(batch)) == pytest.approx(-0.2)


def classified(*scores: float, rewards: list[float], group: list[int]) -> Batch:
    """One token a rollout, whose log-ratio is the score."""
    n = len(scores)
    columns = {
        "token.now.logp": tensor(list(scores)).reshape(n, 1) - 1.0,
        "token.old.logp": torch.full((n, 1), -1.0).double(),
        "rollout.reward": tensor(rewards),
    }
    return Batch.from_padded(torch.ones(n, 1), group, columns)


def test_group_classification_by_hand() -> None:
    batch = classified(0.1, -0.2, 0.3, 0.5, rewards=[1.0, 0.0, 0.0, 1.0], group=[0, 0, 0, 1])
    right, wrong = math.exp(-0.1 / 0.5), math.exp(-0.2 / 0.5) + math.exp(0.3 / 0.5)
    expected = math.log(1 + right) + math.log(1 + wrong)
    assert losses(GroupSoftmax(), batch) == pytest.approx([expected, 0])  # a group of one class has no loss
    assert float(GroupSoftmax()(batch)) == pytest.approx(expected / 2)  # but is counted
    assert losses(GroupSoftmax(anchor=False), batch) == pytest.approx([math.log(1 + right * wrong), 0])
    logistic = [math.log1p(right), math.log1p(math.exp(-0.4)), math.log1p(math.exp(0.6))]
    assert losses(RolloutLogistic(), batch)[:3] == pytest.approx(logistic)
    assert float(RolloutLogistic()(batch)) == pytest.approx(sum(logistic) / 3)


def test_group_classification_of_one_class_has_gradient_zero_not_nan() -> None:
    batch = classified(0.1, -0.2, rewards=[1.0, 1.0], group=[0, 0])
    for term in (GroupSoftmax(), GroupSoftmax(anchor=False), RolloutLogistic()):
        logp = batch[NOW].clone().requires_grad_()
        term(batch.with_columns({NOW: logp})).backward()  # type: ignore[no-untyped-call]
        assert logp.grad is not None
        assert not logp.grad.any()
