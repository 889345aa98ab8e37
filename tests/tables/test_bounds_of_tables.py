"""Identities and bounds of the methods on tables, on random inputs."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podium.tables.action_groups import lifted_process
from podium.tables.allocation import PowerLaw, greedy_allocation
from podium.tables.information import conditional_information, decomposition, fair_optimum, table_information
from podium.tables.inverse_gap import inverse_gap_probabilities
from podium.tables.one_sided import one_sided_estimates, surrogate_losses, zero_one_losses
from podium.tables.random_values import stochastic_horizon
from podium.tables.sleeping_experts import SleepingExperts
from podium.tables.top_k import top_k

seeds = st.integers(0, 10**6)


@given(seeds, st.integers(2, 8), st.floats(0.1, 1e4))
def test_a_round_of_inverse_gaps_has_bounded_regret(seed: int, actions: int, gamma: float) -> None:
    """For any truth f*: Σ p (max f* − f*) ≤ K/γ + γ/4 · Σ p (f − f*)²."""
    draw = np.random.default_rng(seed)
    predicted, true = draw.random((2, actions))
    p = inverse_gap_probabilities(predicted, gamma)
    regret = float((p * (true.max() - true)).sum())
    error = float((p * (predicted - true) ** 2).sum())
    assert regret <= actions / gamma + gamma / 4 * error + 1e-12


@given(seeds)
@settings(max_examples=30)
def test_every_sleeping_expert_is_followed_within_its_bound(seed: int) -> None:
    """R ≤ sqrt(3 C ln(N B)), B = 1 + 3/2 · mean(1 + ln(1 + C)), for losses that an adversary may choose."""
    draw = np.random.default_rng(seed)
    experts = SleepingExperts(int(draw.integers(2, 7)))
    for _ in range(200):
        active = draw.random(experts.experts) < 0.6
        active[draw.integers(experts.experts)] = True
        p = experts.probability(active)
        loss = np.where(p > np.median(p), 1.0, draw.random(experts.experts))  # against those that are trusted
        experts.update(active, loss)
    bound = 1 + 1.5 * np.mean(1 + np.log1p(experts.scale))
    assert (experts.regret <= np.sqrt(3 * experts.scale * np.log(experts.experts * bound)) + 1e-9).all()


@given(seeds)
@settings(max_examples=30)
def test_the_greedy_allocation_is_the_best_of_all(seed: int) -> None:
    draw = np.random.default_rng(seed)
    curves = [PowerLaw(*row) for row in zip(draw.random(3), draw.random(3), draw.uniform(0.2, 1.5, 3), strict=True)]
    weight, start = draw.random(3), draw.integers(1, 6, 3)
    found = greedy_allocation(curves, start, np.ones(3), weight, budget=6)
    worth = float((weight * found.error).sum())
    others = [
        sum(w * c(n + k) for w, c, n, k in zip(weight, curves, start, more, strict=True))
        for more in product(range(7), repeat=3)
        if sum(more) == 6
    ]
    assert worth == pytest.approx(min(others), abs=1e-12)


def test_identical_groups_end_with_equal_numbers() -> None:
    found = greedy_allocation([PowerLaw(0.1, 1.0, 0.5)] * 3, [2, 9, 5], np.ones(3), np.ones(3), budget=14)
    assert found.counts.tolist() == [10, 10, 10]


@given(seeds)
@settings(max_examples=30)
def test_grouping_loses_no_more_than_its_bound(seed: int) -> None:
    draw = np.random.default_rng(seed)
    reward, transition = draw.random((4, 6)), draw.dirichlet(np.ones(4), (4, 6))
    found = lifted_process(reward, transition, draw.integers(3, size=6), 0.8)
    assert -1e-9 <= found.loss <= found.bound + 1e-9
    assert lifted_process(reward, transition, np.arange(6), 0.8).loss == pytest.approx(0.0, abs=1e-9)


@given(seeds)
@settings(max_examples=15, deadline=None)
def test_disparities_are_the_sums_of_their_parts(seed: int) -> None:
    joint = np.random.default_rng(seed).dirichlet(np.ones(12)).reshape(3, 2, 2)
    found = decomposition(joint)
    assert found.unique + found.redundant == pytest.approx(table_information(joint.sum(0)), abs=2e-9)
    assert found.unique + found.masked == pytest.approx(conditional_information(joint), abs=2e-9)
    assert min(found.unique, found.redundant, found.masked, found.unique_client) >= 0
    relabelled = decomposition(joint[[2, 0, 1]])
    assert relabelled.unique == pytest.approx(found.unique, abs=1e-6)


@given(seeds)
@settings(max_examples=6, deadline=None)
def test_the_unique_part_is_the_least_of_a_grid(seed: int) -> None:
    """With everything binary, the joints with the same margins have two free numbers."""
    joint = np.random.default_rng(seed).dirichlet(np.ones(8)).reshape(2, 2, 2)
    by_client, by_answer = joint.sum(2), joint.sum(0)  # [s, z], [z, y]
    grids = []
    for z in range(2):
        low = max(0.0, by_client[0, z] - by_answer[z, 1])
        grids.append(np.linspace(low, min(by_client[0, z], by_answer[z, 0]), 301))
    one, other = np.meshgrid(*grids, indexing="ij")
    q = np.zeros((*one.shape, 2, 2, 2))
    for z, t in enumerate((one, other)):
        q[..., 0, z, 0], q[..., 0, z, 1] = t, by_client[0, z] - t
        q[..., 1, z, 0], q[..., 1, z, 1] = by_answer[z, 0] - t, by_client[1, z] - by_answer[z, 0] + t
    q = np.maximum(q, 0.0)
    whole = q.sum(-2, keepdims=True)  # over z
    with np.errstate(divide="ignore", invalid="ignore"):
        minus_entropy = np.where(q > 0, q * np.log2(q / whole), 0.0).sum((-1, -2, -3))  # −H(Z | S, Y)
    client = by_client.sum(1)
    least = float(minus_entropy.min()) - float((by_client * np.log2(by_client / client[:, None])).sum())
    found = decomposition(joint).unique
    assert found <= least + 1e-9
    assert found == pytest.approx(least, abs=2e-4)  # the grid's own spacing


def test_looser_bounds_never_cost_accuracy() -> None:
    count, positive = np.array([[300, 200], [100, 400]]), np.array([[90, 120], [20, 240]])
    found = [fair_optimum(count, positive, e, e).accuracy for e in (0.0, 0.002, 0.01, 0.05, 0.2, 1.0)]
    assert (np.diff(found) >= -1e-6).all()
    assert found[-1] == pytest.approx(1.0)


@given(seeds)
def test_one_sided_estimates_average_to_the_losses(seed: int) -> None:
    draw = np.random.default_rng(seed)
    rules, weight = (draw.random((5, 3)) < 0.5).astype(float), draw.dirichlet(np.ones(5))
    label, policy = draw.integers(2, size=3), weight @ rules
    mean_accept, mean_reject = np.zeros(3), np.zeros(3)
    for w, rule in zip(weight, rules, strict=True):
        seen = [int(y) if a else None for y, a in zip(label, rule, strict=True)]
        accept, reject = one_sided_estimates(rule > 0, seen, policy)
        mean_accept, mean_reject = mean_accept + w * accept, mean_reject + w * reject
    ever, never = rules.any(0), ~rules.all(0)
    np.testing.assert_allclose(mean_accept[ever], (1.0 - label)[ever])
    np.testing.assert_allclose(mean_reject[never], 0.5)


@given(seeds)
def test_surrogate_differences_are_half_of_those_of_the_error(seed: int) -> None:
    draw = np.random.default_rng(seed)
    one, other, label = draw.integers(2, size=(3, 6))
    surrogate = surrogate_losses(one, label.tolist()) - surrogate_losses(other, label.tolist())
    np.testing.assert_allclose(surrogate, (zero_one_losses(one, label) - zero_one_losses(other, label)) / 2)


@given(seeds, st.floats(-5, 5), st.floats(0.1, 10))
def test_the_sharpe_ratio_ignores_shift_and_scale(seed: int, shift: float, scale: float) -> None:
    estimate, true = np.random.default_rng(seed).random((2, 6))
    plain = top_k(estimate, true, 0.4).sharpe_ratio[1:]
    moved = top_k(estimate, scale * true + shift, scale * 0.4 + shift).sharpe_ratio[1:]
    np.testing.assert_allclose(np.array(moved, float), np.array(plain, float), rtol=1e-6, atol=1e-6)


def test_the_horizon_of_a_chain_needs_as_many_improvements_as_in_the_deterministic_analysis() -> None:
    """Advancing n times earns 1, leaving at once 0.3: the random policy's values mislead until n − 1 improvements."""
    for length in (3, 4, 5):
        transition, reward = np.zeros((length + 1, 2, length + 1)), np.zeros((length + 1, 2))
        transition[np.arange(length), 0, np.arange(1, length + 1)] = 1.0
        transition[:, 1, length] = transition[length, :, length] = 1.0
        reward[length - 1, 0], reward[0, 1] = 1.0, 0.3
        assert stochastic_horizon(transition, reward, length)[0] == length - 1
