"""The keyed normaliser: every choice against plain Python, its limits, and its degenerate cells."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from podium.core import Batch, Normalizer, Partition, PodiumError
from podium.parts.advantage import GAE, Normalize, Returns
from podium.parts.reward import TokenReward
from tests.core.hierarchy import Hierarchy, cells, close, hierarchies, mean, quantile, std, tensor

CHOICES = st.fixed_dictionaries(
    {
        "centre": st.sampled_from(["mean", "median", "lower_median", "leave_one_out", "none"]),
        "scale": st.sampled_from(["std", "mad", "lower_mad", "std_of_others", "none"]),
        "unbiased": st.booleans(),
        "epsilon": st.sampled_from([1e-6, 0.1, 0.0]),
        "epsilon_at": st.sampled_from(["outside", "inside", "floor"]),
        "zero_scale": st.sampled_from(["divide", "skip"]),
        "singleton": st.sampled_from(["raw", "zero"]),
        "virtual": st.sampled_from([0, 0, 1, 3]),
        "limit": st.sampled_from([None, 1.5]),
    }
)


def lower(values: list[float]) -> float:
    """The middle one, the lower of two; like `quantile` NaN of nothing."""
    return sorted(values)[(len(values) - 1) // 2] if values else math.nan


def normalised(
    n: Normalizer, x: list[float], keys: list[Any], where: list[bool], weight: list[float] | None
) -> list[float]:
    """The definition, cell by cell."""
    found = []
    for i, value in enumerate(x):
        members = cells(keys, where)[keys[i]]
        others = [j for j in members if j != i]
        values = [x[j] for j in members] + [float(n.virtual_value)] * n.virtual
        weights = None if weight is None else [weight[j] for j in members]
        apart = [x[j] for j in others]
        centre = {
            "mean": mean(values, weights),
            "median": quantile(values, 0.5),
            "lower_median": lower(values),
            "leave_one_out": mean(apart, None if weight is None else [weight[j] for j in others]),
            "none": 0.0,
        }[n.centre]
        alone = len(members) <= 1
        result = value - (0.0 if alone and n.singleton == "raw" else centre)
        if n.scale != "none":
            exists = len(apart if n.scale == "std_of_others" else members) > 1
            if n.scale == "std" and weights is not None and n.unbiased:
                exists = exists and sum(weights) > 1
            middle = quantile(values, 0.5)
            scale = {
                "std": std(values, n.unbiased, weights),
                "mad": quantile([abs(v - middle) for v in values], 0.5),
                "lower_mad": lower([abs(v - lower(values)) for v in values]),
                "std_of_others": std(apart, n.unbiased),
            }[n.scale]
            scale = scale if exists else 1.0
            epsilon = n.epsilon
            soft = {
                "outside": scale + epsilon,
                "inside": math.sqrt(scale**2 + epsilon),
                "floor": max(scale, epsilon),
            }[n.epsilon_at]
            if scale == 0 and (n.zero_scale == "skip" or epsilon == 0):
                soft = 1.0
            result /= soft
        if alone and n.singleton == "zero":
            result = 0.0
        found.append(result if n.limit is None else min(max(result, -n.limit), n.limit))
    return found


@given(hierarchies(), CHOICES, st.booleans())
@settings(deadline=None, max_examples=150)
def test_every_choice_is_what_it_says(h: Hierarchy, choices: dict[str, Any], weighted: bool) -> None:
    if choices["virtual"]:
        choices |= {"centre": "mean", "scale": "none" if choices["scale"] == "none" else "std"}
    n = Normalizer(**choices)
    x, where = h.numbers("rollout"), h.mask("rollout", 0.8)
    weight = h.numbers("rollout", (0.0, 0.5, 1.0, 2.0)) if weighted else None
    group = Partition(torch.tensor(h.rollouts), h.sizes["group"], where=torch.tensor(where))
    call = lambda: n.normalized(group, tensor(x), weight=None if weight is None else tensor(weight))  # noqa: E731
    medians = ("median", "lower_median", "mad", "lower_mad", "std_of_others")
    if weighted and (n.centre in medians or n.scale in medians or n.virtual):
        with pytest.raises(PodiumError, match="counts every member once: it takes no weights"):
            call()
        return
    expected = normalised(n, x, h.rollouts, where, weight)
    # A deviation that is rounding alone may be divided by epsilon, so the tolerance is that of the division.
    close(call(), expected, 1e-9)


def test_the_rewards_one_zero_zero_zero_by_hand() -> None:
    batch = Batch.from_rewards(tensor([1.0, 0.0, 0.0, 0.0]), [0] * 4)

    def advantage(**choices: Any) -> list[float]:
        return Normalize(**choices)(batch)["rollout.advantage"].tolist()

    assert advantage() == pytest.approx([1.499997, -0.499999, -0.499999, -0.499999], abs=1e-8)
    assert advantage(unbiased=False, epsilon=0) == pytest.approx([3**0.5, *[-1 / 3**0.5] * 3])
    assert advantage(scale="none") == [0.75, -0.25, -0.25, -0.25]
    assert advantage(centre="leave_one_out", scale="none") == pytest.approx([1, -1 / 3, -1 / 3, -1 / 3])
    others = advantage(centre="leave_one_out", scale="std_of_others", zero_scale="skip")
    assert others == pytest.approx([1, *[-1 / 3 / (1 / 3**0.5 + 1e-6)] * 3])
    assert advantage(centre="median", scale="none") == [1, 0, 0, 0]
    assert advantage(centre="none", scale="none") == [1, 0, 0, 0]
    assert advantage(scale="none", virtual=1) == pytest.approx([0.6, -0.4, -0.4, -0.4])
    assert advantage(scale="none", virtual=4, virtual_value=0.25) == [0.75, -0.25, -0.25, -0.25]
    assert advantage(centre="lower_median", scale="lower_mad", epsilon=1e-3)[0] == pytest.approx(1000)
    assert advantage(scale="none", limit=0.5) == [0.5, -0.25, -0.25, -0.25]


def test_leave_one_out_is_the_centred_value_times_g_over_g_minus_one() -> None:
    torch.manual_seed(0)
    batch = Batch.from_rewards(torch.randn(60).double(), torch.arange(60) // 6)
    apart = Normalize(centre="leave_one_out", scale="none")(batch)["rollout.advantage"]
    centred = Normalize(scale="none")(batch)["rollout.advantage"]
    torch.testing.assert_close(apart, centred * 6 / 5, rtol=1e-12, atol=1e-12)


def test_a_scope_takes_the_scale_over_other_cells_than_the_centre() -> None:
    batch = Batch.from_rewards(
        tensor([1.0, 3.0, 10.0, 14.0]), [0, 0, 1, 1], {"rollout.n": tensor([1.0, 1.0, 1.0, 3.0])}
    )
    whole = std([1.0, 3.0, 10.0, 14.0])
    close(Normalize(scope=(), epsilon=0)(batch)["rollout.advantage"], [-1 / whole, 1 / whole, -2 / whole, 2 / whole])
    rows = std([1.0, 3.0, 10.0, 14.0, 14.0, 14.0])
    weighted = Normalize(scope=(), scope_weight="rollout.n", epsilon=0)(batch)["rollout.advantage"]
    close(weighted, [-1 / rows, 1 / rows, -2 / rows, 2 / rows])


def test_a_baseline_column_stands_in_for_the_centre_even_in_a_group_of_one() -> None:
    batch = Batch.from_rewards(tensor([1.0, 0.0]), [0, 1], {"group.value": tensor([0.25, 0.5])})
    close(Normalize(baseline="group.value", scale="none")(batch)["rollout.advantage"], [0.75, -0.5])


def test_constant_cells_give_exactly_zero_under_every_choice() -> None:
    batch = Batch.from_rewards(torch.full((7,), 0.1), [0] * 7)
    for centre in ("mean", "median", "leave_one_out"):
        for scale in ("std", "mad", "std_of_others", "none"):
            for epsilon in (0.0, 1e-6):
                advantage = Normalize(centre=centre, scale=scale, epsilon=epsilon)(batch)["rollout.advantage"]
                assert not advantage.any(), (centre, scale, epsilon)


def test_the_std_of_others_is_zero_in_float32_where_the_others_agree() -> None:
    # 0.7 and its square are not exact in binary: the difference of sums must not pass for a spread.
    batch = Batch.from_rewards(torch.tensor([0.1, *[0.7] * 15]), [0] * 16)
    part = Normalize(centre="leave_one_out", scale="std_of_others", zero_scale="skip")
    assert float(part(batch)["rollout.advantage"][0]) == pytest.approx(-0.6, rel=1e-6)


def test_a_group_of_one_gets_what_is_asked_for() -> None:
    batch = Batch.from_rewards(tensor([5.0, 1.0, 3.0]), [0, 1, 1])
    close(Normalize(epsilon=0)(batch)["rollout.advantage"], [5, -1 / 2**0.5, 1 / 2**0.5])
    close(Normalize(singleton="zero", epsilon=0)(batch)["rollout.advantage"], [0, -1 / 2**0.5, 1 / 2**0.5])
    with pytest.raises(PodiumError, match=r"A group has a single rollout: it has no baseline. Sample at least two"):
        Normalize(singleton="error")(batch)


def test_those_who_do_not_count_are_compared_with_those_who_do() -> None:
    purposes = {"rollout.purpose": ["train", "train", "demo"]}
    batch = Batch.from_rewards(tensor([1.0, 3.0, 7.0]), [0, 0, 0], purposes)
    close(Normalize(scale="none")(batch)["rollout.advantage"], [-1, 1, 5])
    close(Normalize(scale="none", centre="leave_one_out")(batch)["rollout.advantage"], [-2, 2, 5])


def test_gae_without_discount_is_the_return_minus_the_value() -> None:
    torch.manual_seed(1)
    mask = torch.rand(6, 9) < 0.8
    columns = {"token.old.value": torch.randn(6, 9).double(), "rollout.reward": torch.randn(6).double()}
    batch = Batch.from_padded(mask, [0, 0, 0, 1, 1, 1], columns, given=True)
    batch = batch.with_columns(TokenReward()(batch))
    outcome = batch.spread(batch["rollout.reward"], "rollout", "token")
    found = GAE(gamma=1.0, lam=1.0)(batch)
    action = batch.action
    torch.testing.assert_close(found["token.advantage"][action], (outcome - batch["token.old.value"])[action])
    torch.testing.assert_close(found["token.return"][action], outcome[action])
    one_step = GAE(gamma=1.0, lam=0.0)(batch)["token.advantage"]
    after = batch.following(batch["token.old.value"], "token", where=action)
    torch.testing.assert_close(
        one_step[action], (batch["token.reward"] + after - batch["token.old.value"])[action], rtol=1e-12, atol=1e-12
    )


def test_returns_without_discount_are_the_outcome_at_every_token() -> None:
    batch = Batch.from_padded(torch.tensor([[1, 1, 1], [1, 0, 0]]), [0, 1], {"rollout.reward": tensor([2.0, 3.0])})
    batch = batch.with_columns(TokenReward()(batch))
    assert Returns()(batch)["token.return"].tolist() == [2, 2, 2, 3]
    close(Returns(gamma=0.5)(batch)["token.return"], [0.5, 1, 2, 3])


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"centre": "maen"}, "Normalizer.centre = 'maen' is not one of 'mean'.*Did you mean 'mean'"),
        ({"scale": "sd"}, "Normalizer.scale = 'sd' is not one of"),
        ({"epsilon": -1.0}, r"Normalizer.epsilon = -1.0 is out of range \[0, inf\]"),
        ({"epsilon": float("nan")}, "Normalizer.epsilon = nan is out of range"),
        ({"epsilon": "1e-6"}, "Normalizer.epsilon = '1e-6' must be a number"),
        ({"virtual": 1.5}, "Normalizer.virtual = 1.5 must be a whole number"),
        ({"virtual": 1, "centre": "median"}, "Normalizer.virtual works with centre='mean'"),
        ({"limit": 0.0}, r"Normalizer.limit = 0.0 is out of range \(0, inf\]"),
        ({"centr": "mean"}, "Normalizer has no setting 'centr'. Did you mean 'centre'"),
    ],
)
def test_choices_that_do_not_exist_are_refused(choices: dict[str, Any], message: str) -> None:
    with pytest.raises(PodiumError, match=message):
        Normalizer(**choices)
