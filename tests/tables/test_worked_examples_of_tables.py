"""The worked examples of the far methods, and identities that hold exactly."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from podium.core.errors import PodiumError
from podium.tables.action_groups import best_grouping, lifted_process
from podium.tables.allocation import PowerLaw, fit_power_law, greedy_allocation
from podium.tables.better_action import actor_loss, better_action
from podium.tables.distraction import alternating_step, coded_parity_loss, gated_logistic, max_pair_loss
from podium.tables.group_gaps import group_metrics, metric_differences
from podium.tables.information import decomposition, fair_optimum, parity_bound, parity_gaps, permutation_baseline
from podium.tables.inverse_gap import inverse_gap_probabilities, sign_changes
from podium.tables.one_sided import exp2_round, one_sided_estimates, surrogate_losses, zero_one_losses
from podium.tables.options import option_end, option_loss
from podium.tables.random_values import depth_targets, effective_horizon, monte_carlo_returns
from podium.tables.sleeping_experts import SleepingExperts, hedge_weight
from podium.tables.soft_forest import GroupAverages, leaf_probabilities
from podium.tables.top_k import normalised_error, rank_correlation, regret_at, top_k


def vector(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def test_squarecb_example_and_the_best_action_keeps_its_share() -> None:
    f = [0.9, 0.8, 0.5, 0.1]
    np.testing.assert_allclose(inverse_gap_probabilities(f, 20), [0.7, 1 / 6, 1 / 12, 0.05], atol=1e-6)
    p = inverse_gap_probabilities(f, 20, available=[True, False, True, True])
    np.testing.assert_allclose(p, [0.856459, 0, 0.090909, 0.052632], atol=1e-6)
    generator = np.random.default_rng(0)
    for gamma in (0.0, 1.0, 100.0):
        f = generator.random(6).tolist()
        p = inverse_gap_probabilities(f, gamma)
        assert p.sum() == pytest.approx(1)
        assert p.max() >= 1 / 6 - 1e-12
        assert (np.diff(p[np.argsort(f)]) >= -1e-12).all()
    assert sign_changes([1, 2, 1, 1, 2]) == 2
    with pytest.raises(PodiumError, match="too small"):
        inverse_gap_probabilities([1.0, 1, 1], 0, mu=1)


def test_one_sided_example() -> None:
    np.testing.assert_allclose(zero_one_losses([1, 1, 0, 0], [1, 0, 1, 0]), [0, 1, 1, 0])
    np.testing.assert_allclose(surrogate_losses([1, 1, 0, 0], [1, 0, 1, 0]), [0, 1, 0.5, 0.5])
    far = np.full((1, 3, 3), 0.3)
    h = [[1, 1, 1], [0, 0, 0], [1, 0, 1]]
    found = exp2_round(h, [0.2, 0.5, 0.1], 2, [1, None, 0], far, eta=0.5, weight=0.5, alpha=0.0, panel_fraction=1.0)
    assert found.pair == (0, 1)
    np.testing.assert_allclose(found.loss, [1.419597, 0.761509, 2.681107], atol=1e-6)
    np.testing.assert_allclose(found.cumulative, [1.619597, 1.261509, 2.781107], atol=1e-6)


def test_one_sided_estimates_are_unbiased() -> None:
    h, w, label = np.array([[1, 0], [0, 1], [1, 1], [0, 0]]), np.array([0.1, 0.2, 0.3, 0.4]), [1, 0]
    q = w @ h
    accept, reject = (sum(w[k] * one_sided_estimates(h[k], label, q)[i] for k in range(4)) for i in (0, 1))
    np.testing.assert_allclose(accept, [0, 1])
    np.testing.assert_allclose(reject, [0.5, 0.5])


def test_sleeping_experts_example() -> None:
    experts = SleepingExperts(3)
    rounds = ([1, 1, 0], [0.5, 0.2, 0]), ([1, 0, 1], [0.4, 0, 0.9]), ([1, 1, 1], [0.6, 0.1, 0.3])
    losses = [experts.update(active, loss) for active, loss in rounds]
    np.testing.assert_allclose(losses, [0.35, 0.714690, 0.314572], atol=1e-6)
    np.testing.assert_allclose(experts.regret, [-0.120739, 0.364572, -0.170739], atol=1e-6)
    assert float(hedge_weight(0.0, 0.0)) == pytest.approx(0.19781, abs=1e-5)


def test_the_best_expert_wins_and_long_streams_stay_finite() -> None:
    experts = SleepingExperts(2)
    for _ in range(20000):
        experts.update([1, 1], [0.0, 1.0])
    np.testing.assert_allclose(experts.probability([1, 1]), [1, 0], atol=1e-6)
    huge = SleepingExperts(2, np.array([9000.0, 8000.0]), np.array([9000.0, 9000.0]))
    assert np.isfinite(huge.probability([1, 1])).all()


def test_allocation_example_equalises_and_fits() -> None:
    curve = PowerLaw(0.05, 1.0, 0.5)
    found = greedy_allocation([curve] * 2, [10, 20], [1, 1], [1, 1], budget=5)
    assert found.counts.tolist() == [15, 20]
    np.testing.assert_allclose(found.error, [0.308199, 0.273607], atol=1e-6)
    assert greedy_allocation([curve] * 3, [5] * 3, [1] * 3, [1] * 3, budget=9).counts.tolist() == [8] * 3
    sizes = np.array([5.0, 10, 20, 40, 80])
    fitted = fit_power_law(sizes, [curve(n) for n in sizes])
    assert fitted(160) == pytest.approx(curve(160), abs=2e-3)
    assert fit_power_law([5, 10], [0.1, 0.2]).scale == 0


def test_action_groups_example_and_loss_within_its_bound() -> None:
    found = lifted_process([[1, 0.8, 0.1]], np.ones((1, 3, 1)), [0, 0, 1], 0.5)
    assert (found.loss, found.bound) == (pytest.approx(0.2), pytest.approx(0.4))
    assert best_grouping([1, 4, 16, 64], [0.3, 0.285714, 0.228571, 0], 200)[1] == 0
    assert best_grouping([1, 64], [0.3, 0], 20000)[1] == 1
    generator = np.random.default_rng(1)
    for _ in range(10):
        reward, transition = generator.random((3, 4)), generator.dirichlet(np.ones(3), (3, 4))
        found = lifted_process(reward, transition, [0, 0, 1, 1], 0.9)
        assert -1e-9 <= found.loss <= found.bound
        assert abs(lifted_process(reward, transition, range(4), 0.9).loss) < 1e-9


@pytest.mark.parametrize(("mode", "last"), [("vanilla", 0.15), ("ema", 0.147368)])
def test_aranyani_example(mode: str, last: float) -> None:
    averages = GroupAverages(mode)
    averages.observe(0, vector(0.2), vector(0.1)[None])
    assert not averages.ready
    averages.observe(1, vector(0.6), vector(0.3)[None])
    assert averages.penalty(1.0).gradient.item() == pytest.approx(0.2)
    averages.observe(0, vector(0.4), vector(0.2)[None])
    assert averages.penalty(1.0).gradient.item() == pytest.approx(last, abs=1e-6)
    assert leaf_probabilities(torch.rand(5, 7, dtype=torch.float64), 3).sum(-1).allclose(torch.ones(5).double())


def test_distraction_example_and_the_other_set_is_untouched() -> None:
    output, attribute = vector(0.8, 0.6, 0.3, 0.5), torch.tensor([1, 1, 0, 0])
    assert max_pair_loss(output, attribute)[0].item() == pytest.approx(0.09)
    assert coded_parity_loss(output, attribute, (0, 1), 100)[0].item() == pytest.approx(0.240571, abs=1e-6)
    x, y = torch.randn(8, 2, dtype=torch.float64), torch.tensor([0, 1] * 4)
    theta, phi, group = vector(0.4, 0.3), vector(1, 1), torch.tensor([0] * 4 + [1] * 4)
    plain = {"lr_theta": 0.5, "lr_phi": 0.5, "leak": False}
    off = alternating_step(gated_logistic, x, y, group, theta, phi, eta=0.0, **plain)
    assert torch.equal(off.phi, phi)
    alone = alternating_step(gated_logistic, x, y, torch.zeros(8), theta, phi, eta=4.0, **plain)
    assert torch.equal(alone.phi, phi)
    assert torch.equal(alone.theta, off.theta)


def test_decomposition_examples() -> None:
    found = decomposition([[[0.30, 0.10], [0.05, 0.15]], [[0.15, 0.05], [0.05, 0.15]]])
    parts = (found.unique, found.redundant, found.masked)
    np.testing.assert_allclose(parts, [0.161523, 0.019973, 0.015120], atol=1e-5)
    assert found.unique + found.redundant == pytest.approx(found.global_disparity)
    assert found.unique + found.masked == pytest.approx(found.local_disparity)
    xor, copy, tied = np.zeros((2, 2, 2)), np.zeros((2, 2, 2)), np.zeros((2, 2, 2))
    for s, z in np.ndindex(2, 2):
        xor[s, z, s ^ z] = copy[s, z, z] = 0.25
        tied[s, s, s] = 0.5
    assert decomposition(xor).masked == pytest.approx(1)
    assert decomposition(copy).unique == pytest.approx(1)
    assert decomposition(tied).redundant == pytest.approx(1)


def test_fair_optimum_example_and_looser_bounds_never_cost() -> None:
    count, positive = [[300, 200], [100, 400]], [[90, 120], [20, 240]]
    accuracy = [fair_optimum(count, positive, eps, eps).accuracy for eps in (0.0, 0.01, 0.1, 1.0)]
    assert accuracy[0] == pytest.approx(0.87, abs=1e-6)
    assert accuracy[1] == pytest.approx(0.917819, abs=1e-5)
    assert accuracy[3] == pytest.approx(1)
    assert accuracy == sorted(accuracy)


def test_pinsker_bounds_the_parity_gap_and_chance_shows_little() -> None:
    joint = np.random.default_rng(2).dirichlet(np.ones(8)).reshape(2, 2, 2)
    gap, _ = parity_gaps(joint)
    share = joint.sum((0, 2))[0]
    assert abs(gap) <= parity_bound(decomposition(joint).global_disparity, share)
    coin = np.random.default_rng(3).integers(0, 2, (2, 400))
    assert permutation_baseline(coin[0], coin[1], rounds=20) < 0.01


def test_gaps_example() -> None:
    y, groups = [1, 0, 1, 1, 1, 0, 1, 0], list("aaaabbbb")
    by_group, _ = group_metrics(y, [1, 1, 0, 1, 0, 0, 1, 0], groups)
    assert list(metric_differences(by_group).values()) == pytest.approx([-0.25, -0.4, 0.5, 1 / 6])
    by_group, _ = group_metrics(y, [1, 1, -1, 1, 0, 0, 1, 0], groups)
    assert (by_group["a"]["SP"], by_group["a"]["EoO"]) == (1, 1)
    assert group_metrics([0, 0], [0, 1], ["a", "a"])[0]["a"]["EoO"] is None


def test_sharpe_ratio_example() -> None:
    estimate, true = [0.9, 0.5, 0.7, 0.1], [1, 2, 1.5, 0.2]
    found = top_k(estimate, true, 0.8)
    assert found.ranking == [0, 2, 1, 3]
    assert found.sharpe_ratio[1:] == pytest.approx([1.9798990, 2.4, 1.5633714], abs=1e-6)
    assert found.sharpe_ratio[0] is None
    assert top_k([2, 1], [1, 1], 0.5, clip=True).sharpe_ratio == [None, 100]
    assert (regret_at(estimate, true, 1), regret_at(estimate, true, 3)) == (1, 0)
    assert normalised_error(true, true) == 0
    assert rank_correlation(true, true) == pytest.approx(1)


def test_sqirl_examples() -> None:
    np.testing.assert_allclose(monte_carlo_returns([0, 1, 0, 2], 0.9), [2.358, 2.62, 1.8, 2.0])
    targets = depth_targets([2.0], [0.5], [0], [[[1, 3], [0, -1], [5, 5]]], 1.0)
    np.testing.assert_allclose(targets, [[2.0, 3.5, 0.5]])
    for n in (3, 4, 5):  # a chain whose first step offers a small sure reward
        end = n + 1
        steps = [[end, s + 1] for s in range(n)] + [[n, n], [end, end]]
        rewards = [[0.0, 0.0] for _ in range(n + 2)]
        rewards[0][0], rewards[n - 1][1] = 0.3, 1.0
        assert effective_horizon(steps, rewards, n).k_min == n - 1


def test_ota_examples() -> None:
    same = torch.tensor([True, True])
    end = option_end(torch.tensor([3, 3]), torch.tensor([30, 6]), torch.tensor([99, 99]), same, 5)
    assert (end.index.tolist(), end.reward.tolist(), end.mask.tolist()) == ([8, 6], [-1, 0], [1, 0])
    heads = (vector(-4), vector(-5)), (vector(-5.5), vector(-5.7)), (vector(-5.6), vector(-5.4))
    found = option_loss(vector(-1), vector(1), *heads)
    assert found.target.item() == pytest.approx(-5.95)
    assert found.loss.item() == pytest.approx(0.21363)


def test_a2pr_example_and_its_limits() -> None:
    q_data, q_vae, value = vector(1, 0.2), vector(0.5, 0.9), vector(0.6, 1.0)
    data, candidate, action = vector(0.3, 0.1)[:, None], vector(0.5, -0.2)[:, None], vector(0.4, 0)[:, None]
    target, weight = better_action(q_data, q_vae, value, data, candidate)
    assert (target.flatten().tolist(), weight.tolist()) == ([0.3, -0.2], [1, 0])
    assert actor_loss(vector(1, 2), action, target, weight).total.item() == pytest.approx(-2.495)
    off = actor_loss(vector(1, 2), action, target, torch.zeros(2).double())
    assert torch.equal(off.total, off.ascent)  # TD3
    toward_data, weight = better_action(vector(2, 2), vector(-9, -9), value, data, candidate)
    assert torch.equal(toward_data, data)  # TD3+BC
    assert weight.tolist() == [1, 1]
