"""Statistics of cells: by hand, against plain Python on random hierarchies, and where they degenerate."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings

from podium.core import Batch, Partition, PodiumError
from tests.core.hierarchy import Hierarchy, cells, close, hierarchies, mean, quantile, std, tensor, transform

INF = math.inf


def partition(index: list[int], where: list[bool] | None = None, count: int | None = None) -> Partition:
    mask = None if where is None else torch.tensor(where)
    return Partition(torch.tensor(index), max(index) + 1 if count is None else count, where=mask)


# -- by hand ---------------------------------------------------------------------------------------------------------


def test_statistics_of_two_cells_by_hand() -> None:
    p, x = partition([0, 1, 0, 0]), tensor([1.0, 7.0, 2.0, 6.0])
    close(p.count(), [3, 1, 3, 3])
    close(p.sum(x), [9, 7, 9, 9])
    close(p.mean(x), [3, 7, 3, 3])
    close(p.std(x), [math.sqrt(7), 0, math.sqrt(7), math.sqrt(7)])
    close(p.agg.var(x, unbiased=False), [14 / 3, 0])
    close(p.centre(x), [-2, 0, -1, 3])
    close(p.leave_one_out(x), [4, 0, 3.5, 1.5])
    close(p.minus_leave_one_out(x), [-3, 7, -1.5, 4.5])
    close(p.min(x), [1, 7, 1, 1])
    close(p.max(x), [6, 7, 6, 6])
    close(p.median(x), [2, 7, 2, 2])
    close(p.quantile(x, 0.25), [1.5, 7, 1.5, 1.5])
    close(p.mad(x), [1, 0, 1, 1])
    close(p.rank(x), [0, 0, 1, 2])
    assert p.argmax(x).tolist() == [False, True, False, True]
    close(p.agg.logsumexp(x), [math.log(math.e + math.e**2 + math.e**6), 7])
    close(p.softmax(tensor([0.0, 3.0, math.log(2), 0.0])), [0.25, 1, 0.5, 0.25])
    close(p.standardize(x, epsilon=0.5), [-2 / (7**0.5 + 0.5), 0, -1 / (7**0.5 + 0.5), 3 / (7**0.5 + 0.5)])


def test_frequency_and_entropy_by_hand() -> None:
    p, answers = partition([0, 0, 0, 0, 1]), torch.tensor([5, 5, 5, 9, 5])
    close(p.frequency(answers), [0.75, 0.75, 0.75, 0.25, 1])
    expected = -(0.75 * math.log(0.75) + 0.25 * math.log(0.25))
    close(p.agg.entropy(answers), [expected, 0], 1e-6)
    # A vote that counts three times as much as each other one.
    weight = tensor([1.0, 1.0, 1.0, 3.0, 1.0])
    close(p.frequency(answers, weight=weight), [0.5, 0.5, 0.5, 0.5, 1])
    close(p.agg.entropy(answers, weight=weight), [math.log(2), 0])


def test_one_who_does_not_enter_receives_the_value_of_its_cell_and_changes_nothing() -> None:
    p, x = partition([0, 0, 0], where=[True, True, False]), tensor([1.0, 3.0, 1e6])
    close(p.mean(x), [2, 2, 2])
    close(p.std(x), [math.sqrt(2)] * 3)
    close(p.centre(x), [-1, 1, 1e6 - 2])
    close(p.leave_one_out(x), [3, 1, 2])
    close(p.max(x), [3, 3, 3])
    close(p.rank(x), [0, 1, -1])
    close(p.softmax(x), [1 / (1 + math.e**2), 1 / (1 + math.e**-2), 0])
    assert p.argmax(x).tolist() == [False, True, False]


def test_where_of_a_call_narrows_the_default_of_the_partition() -> None:
    p, x = partition([0, 0, 0], where=[True, True, False]), tensor([1.0, 3.0, 5.0])
    close(p.mean(x, where=torch.tensor([False, True, True])), [3, 3, 3])


def test_a_cell_that_nobody_enters_has_the_documented_values() -> None:
    p, x = partition([0, 1], where=[False, True], count=3), tensor([4.0, 5.0])
    close(p.agg.count(), [0, 1, 0])
    close(p.agg.sum(x), [0, 5, 0])
    close(p.agg.mean(x), [0, 5, 0])
    close(p.agg.std(x), [0, 0, 0])
    close(p.agg.min(x), [INF, 5, INF])
    close(p.agg.max(x), [-INF, 5, -INF])
    close(p.agg.logsumexp(x), [-INF, 5, -INF])
    close(p.agg.quantile(x, 0.3), [math.nan, 5, math.nan])
    close(p.agg.first(x), [0, 5, 0])
    close(p.centre(x), [4, 0])  # the mean of nobody is 0
    close(p.softmax(x), [0, 1])
    assert p.agg.any(x > 0).tolist() == [False, True, False]
    assert p.agg.all(x > 9).tolist() == [True, False, True]


def test_weights_count_as_repeated_rows() -> None:
    x, weight = tensor([1.0, 4.0, 7.0]), tensor([2.0, 1.0, 3.0])
    repeated = tensor([1.0, 1.0, 4.0, 7.0, 7.0, 7.0])
    p, q = partition([0, 0, 0]), partition([0] * 6)
    close(p.agg.mean(x, weight=weight), q.agg.mean(repeated).tolist())
    close(p.agg.std(x, weight=weight), q.agg.std(repeated).tolist())
    close(p.leave_one_out(x, weight=weight), [25 / 4, 23 / 5, 6 / 3])


def test_weights_that_sum_to_one_have_no_unbiased_std() -> None:
    p, x = partition([0, 0]), tensor([1.0, 3.0])
    close(p.agg.std(x, weight=tensor([0.5, 0.5])), [0])
    close(p.agg.std(x, weight=tensor([0.5, 0.5]), unbiased=False), [1])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("value", [0.1, 1e-30, 3e8, -7.3])
def test_equal_values_centre_to_exactly_zero_and_have_std_exactly_zero(value: float, dtype: torch.dtype) -> None:
    x = torch.full((7,), value, dtype=dtype)
    for p in (partition([0] * 7), partition([0, 1, 0, 1, 0, 0, 0])):
        assert not p.centre(x).any()
        assert not p.std(x).any()
        assert not p.minus_leave_one_out(x).any()


def test_std_survives_a_large_offset() -> None:
    x = tensor([1.0, 2.0, 3.0]) + 1e9
    close(partition([0, 0, 0]).agg.std(x), [1.0])


def test_std_of_a_constant_cell_has_gradient_zero_not_nan() -> None:
    x = torch.ones(4, dtype=torch.float64, requires_grad=True)
    partition([0, 0, 1, 1]).std(x).sum().backward()
    assert x.grad is not None
    assert not x.grad.any()


def test_softmax_and_logsumexp_of_an_empty_cell_have_gradient_zero_not_nan() -> None:
    p = partition([0, 0, 1], where=[True, True, False])
    for of in (p.softmax, lambda x: p.agg.logsumexp(x)[:1], lambda x: p.agg.logsumexp(x, anchor=0.0)):
        x = tensor([1.0, 2.0, 3.0]).requires_grad_()
        of(x).sum().backward()
        assert x.grad is not None
        assert bool(x.grad.isfinite().all())
        assert x.grad[2] == 0


def test_logsumexp_does_not_overflow_and_can_be_anchored() -> None:
    p, x = partition([0, 0]), tensor([1000.0, 1000.0])
    close(p.agg.logsumexp(x), [1000 + math.log(2)])
    close(p.agg.logsumexp(-x, anchor=0.0), [0.0])
    close(p.agg.logsumexp(tensor([0.0, math.log(3)]), anchor=0.0), [math.log(5)])


def test_integers_and_truth_values_are_counted_not_saturated() -> None:
    p = partition([0, 0, 0, 1])
    close(p.agg.sum(torch.tensor([True, True, True, False])), [3, 0])
    close(p.agg.mean(torch.tensor([True, True, False, True])), [2 / 3, 1], 1e-6)
    assert p.agg.max(torch.tensor([1, 5, 2, -3])).tolist() == [5, -3]
    assert p.agg.min(torch.tensor([True, False, True, True])).tolist() == [0, 1]


def test_statistics_of_vectors_are_taken_component_by_component() -> None:
    x = tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).reshape(3, 2)
    p = partition([0, 1, 0], where=[True, True, True])
    torch.testing.assert_close(p.agg.mean(x), tensor([3.0, 4.0, 3.0, 4.0]).reshape(2, 2))
    torch.testing.assert_close(p.centre(x), tensor([-2.0, -2.0, 0.0, 0.0, 2.0, 2.0]).reshape(3, 2))


# -- ties ------------------------------------------------------------------------------------------------------------


def test_ties_break_by_the_index_of_the_rollout_whatever_the_order_of_rows() -> None:
    batch = Batch.from_rewards([1.0, 1.0, 1.0, 0.0], [0, 0, 0, 0], {"rollout.index": torch.tensor([2, 0, 1, 3])})
    groups, reward = batch.by("rollout", "group"), batch["rollout.reward"]
    assert groups.rank(reward).tolist() == [3, 1, 2, 0]
    assert groups.argmax(reward).tolist() == [False, True, False, False]


@given(hierarchies())
@settings(deadline=None, max_examples=40)
def test_ranks_do_not_depend_on_the_order_of_rows(h: Hierarchy) -> None:
    batch = h.batch({"rollout.x": tensor(h.numbers("rollout", (0.0, 1.0)))})
    order = list(range(len(batch)))
    h.random.shuffle(order)
    moved = batch.take("rollout", torch.tensor(order))
    for keys in ((), ("group",)):
        ranks = batch.by("rollout", *keys).rank(batch["rollout.x"])
        assert torch.equal(moved.by("rollout", *keys).rank(moved["rollout.x"]), ranks[order])
    tokens, inverse = batch.by("token"), moved.by("token")
    number = batch.with_columns({"token.number": torch.arange(batch.size("token"))}).take(
        "rollout", torch.tensor(order)
    )
    flat = torch.zeros(batch.size("token"))
    assert torch.equal(inverse.rank(flat), tokens.rank(flat)[number["token.number"]])


# -- against plain Python --------------------------------------------------------------------------------------------


@given(hierarchies())
@settings(deadline=None, max_examples=80)
def test_partition_statistics_are_those_of_plain_python(h: Hierarchy) -> None:
    level = h.random.choice(["token", "turn", "rollout"])
    n = h.sizes[level]
    x, weight = h.numbers(level), h.numbers(level, (0.0, 0.5, 1.0, 2.0))
    codes, where = [h.random.randrange(3) for _ in range(n)], h.mask(level)
    group = h.link(level, "group")
    keys = list(zip(group, codes, strict=True))
    p = h.batch({"rollout.x": torch.zeros(h.sizes["rollout"], dtype=torch.float64)}).by(
        level, "group", torch.tensor(codes, dtype=torch.long)
    )
    X, W, M = tensor(x), tensor(weight), torch.tensor(where, dtype=torch.bool)
    pick = lambda members: [x[i] for i in members]  # noqa: E731
    weigh = lambda members: [weight[i] for i in members]  # noqa: E731

    close(p.count(M), transform(keys, len, where))
    close(p.sum(X, M), transform(keys, lambda m: sum(pick(m)), where))
    close(p.mean(X, M), transform(keys, lambda m: mean(pick(m)), where))
    close(p.mean(X, M, W), transform(keys, lambda m: mean(pick(m), weigh(m)), where))
    for unbiased in (True, False):
        close(p.std(X, M, unbiased=unbiased), transform(keys, lambda m: std(pick(m), unbiased), where))  # noqa: B023
        expected = transform(keys, lambda m: std(pick(m), unbiased, weigh(m)), where)  # noqa: B023
        close(p.std(X, M, W, unbiased), expected)
    close(p.min(X, M), transform(keys, lambda m: min(pick(m), default=INF), where))
    close(p.max(X, M), transform(keys, lambda m: max(pick(m), default=-INF), where))
    for q in (0.0, 0.3, 0.5, 1.0):
        close(p.quantile(X, q, M), transform(keys, lambda m: quantile(pick(m), q), where))  # noqa: B023

    def mad(m: list[int]) -> float:
        middle = quantile(pick(m), 0.5)
        return quantile([abs(v - middle) for v in pick(m)], 0.5)

    close(p.mad(X, M), transform(keys, mad, where))
    close(p.agg.entropy(X, M)[p.index], transform(keys, lambda m: _entropy(pick(m)), where))
    others = {i: [j for j in cells(keys, where)[keys[i]] if j != i] for i in range(n)}
    close(p.leave_one_out(X, M), [mean(pick(others[i])) for i in range(n)])
    close(p.leave_one_out(X, M, W), [mean(pick(others[i]), weigh(others[i])) for i in range(n)])
    total = transform(keys, lambda m: sum(math.exp(v) for v in pick(m)), where)
    close(p.softmax(X, M), [math.exp(x[i]) / total[i] if where[i] else 0 for i in range(n)])
    same = [sum(x[j] == x[i] for j in cells(keys, where)[keys[i]]) for i in range(n)]
    size = transform(keys, len, where)
    close(p.frequency(X, M), [a / b if b else 0 for a, b in zip(same, size, strict=True)])


def _entropy(values: list[float]) -> float:
    shares = [values.count(v) / len(values) for v in set(values)]
    return -sum(f * math.log(f) for f in shares)


@given(hierarchies())
@settings(deadline=None, max_examples=40)
def test_statistics_of_ordered_and_unordered_cells_agree(h: Hierarchy) -> None:
    batch, x = h.batch(), tensor(h.numbers("token"))
    ordered = batch.partition("token", "rollout")
    assert ordered.ordered
    plain = Partition(ordered.index, ordered.cells)
    for statistic in ("sum", "mean", "std", "min", "max", "median", "count", "first"):
        arguments = () if statistic == "count" else (x,)
        results = (getattr(p.agg, statistic)(*arguments) for p in (ordered, plain))
        torch.testing.assert_close(*results, rtol=1e-14, atol=1e-14, equal_nan=True)
    torch.testing.assert_close(ordered.centre(x), plain.centre(x), rtol=1e-14, atol=1e-14)


# -- a partition as a level ------------------------------------------------------------------------------------------


def test_mean_over_groups_of_group_means_differs_from_the_mean_over_rollouts() -> None:
    batch = Batch.from_rewards(torch.tensor([1.0, 1.0, 1.0, 0.0]), ["a", "a", "a", "b"])
    groups = batch.by("rollout", "group")
    means = groups.agg.mean(batch["rollout.reward"])
    close(groups.by().agg.mean(means), [0.5])
    close(batch.by("rollout").agg.mean(batch["rollout.reward"]), [0.75])


def test_an_empty_rollout_is_not_a_member_of_its_group_s_mean_of_token_means() -> None:
    # Rollout 1 has no token, and must not be taken for one of the group that token 0 belongs to.
    links = {
        ("token", "rollout"): torch.tensor([0, 0, 2]),
        ("rollout", "group"): torch.tensor([0, 1, 1]),
    }
    batch = Batch(links, {"token.x": torch.tensor([1.0, 3.0, 5.0])})
    rollouts = batch.by("token", "rollout")
    close(rollouts.by("group").agg.mean(rollouts.agg.mean(batch["token.x"])), [2, 5])


def test_cells_of_mixed_keys_can_be_partitioned_by_what_is_constant_in_them() -> None:
    batch = Batch.from_rewards(torch.tensor([1.0, 2.0, 4.0, 8.0]), [0, 0, 1, 1], {"group.domain": ["math", "code"]})
    halves = batch.by("rollout", "group", torch.tensor([0, 1, 0, 1]))
    by_domain = halves.by("domain")
    close(by_domain.agg.sum(halves.agg.mean(batch["rollout.reward"])), [3, 12])
    with pytest.raises(PodiumError, match="varies within a cell"):
        batch.by("rollout", "domain").by("rollout.reward")


def test_a_cell_that_nobody_enters_does_not_enter_the_level_above() -> None:
    batch = Batch.from_rewards(
        torch.tensor([1.0, 3.0, 9.0]), ["a", "a", "b"], {"rollout.purpose": ["train", "train", "probe"]}
    )
    groups = batch.by("rollout", "group")
    close(groups.by().agg.mean(groups.agg.mean(batch["rollout.reward"])), [2])


def test_refining_by_a_column_of_text() -> None:
    batch = Batch.from_rewards(torch.tensor([1.0, 2.0, 4.0]), [0, 0, 0], {"rollout.answer": ["x", "y", "x"]})
    groups = batch.by("rollout", "group")
    close(groups.refine("answer").mean(batch["rollout.reward"]), [2.5, 2, 2.5])
    close(groups.frequency("answer"), [2 / 3, 1 / 3, 2 / 3], 1e-6)


# -- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda p, x: p.mean(x[:2]), "2 values for the 3 elements"),
        (lambda p, x: p.centre(x[:2]), "2 values for the 3 elements"),
        (lambda p, x: p.max(x[:2]), "2 values for the 3 elements"),
        (lambda p, x: p.rank(x[:2]), "2 values for the 3 elements"),
        (lambda p, x: p.spread(x), "3 values for the 2 cells"),
        (lambda p, x: p.mean(x, where=x), "where is torch.float64: it must be boolean"),
        (lambda p, x: p.mean(x, where=torch.tensor([True])), "where has 1 values for the 3 elements"),
        (lambda p, x: p.quantile(x, 1.5), r"1.5 is out of range \[0, 1\]"),
        (lambda p, x: p.by("group"), "made by batch.by"),
        (lambda p, x: p.refine("answer"), "made by batch.by"),
    ],
)
def test_misuse_of_a_partition_is_refused_in_words(call, message) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(PodiumError, match=message):
        call(partition([0, 0, 1]), tensor([1.0, 2.0, 3.0]))


def test_the_gradient_of_copied_values_is_the_sum_over_their_cell() -> None:
    """Cells that are contiguous have a faster gradient of their own, an empty one included."""
    cell = torch.tensor([0, 0, 2, 3, 3, 3])
    weight = torch.arange(6.0)
    for ordered in (True, False):
        y = torch.ones(4, requires_grad=True)
        (weight * Partition(cell, 4, ordered=ordered).spread(y)).sum().backward()
        assert y.grad is not None
        assert y.grad.tolist() == [1, 0, 2, 12]
    y = torch.randn(4, dtype=torch.float64, requires_grad=True)
    copied = Partition(cell, 4, ordered=True).spread
    assert torch.autograd.gradcheck(lambda y: copied(y.exp()), (y,))
    assert torch.autograd.gradgradcheck(lambda y: copied(y.exp()), (y,))


@pytest.mark.parametrize("size", [1e30, 1.0, 1e-30])
def test_std_of_a_single_cell_of_any_size(size: float) -> None:
    x = size * torch.tensor([1.0, 2.0, 3.0])
    assert Partition(torch.zeros(3, dtype=torch.long), 1).agg.std(x).item() == pytest.approx(size, rel=1e-6)
