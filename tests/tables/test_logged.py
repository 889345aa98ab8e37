"""Off-policy estimators: what they equal, what they average to, and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest

from podium.core.errors import PodiumError
from podium.tables.logged import (
    ESTIMATORS,
    Logs,
    direct_method,
    doubly_robust_value,
    effective_sample_size,
    per_decision,
    trajectory_importance,
    trajectory_self_normalised,
)


def two_steps() -> Logs:
    """Two rollouts of two steps; ratios 2 and 1/2 in the first, 1/2 and 1 in the second."""
    reward = np.array([[1.0, 2.0], [3.0, 4.0]])
    behaviour = np.log(np.array([[0.25, 0.5], [0.8, 0.5]]))
    target = np.log(np.array([[0.5, 0.25], [0.4, 0.5]]))
    q, v = np.array([[2.0, 1.0], [5.0, 3.0]]), np.array([[2.5, 1.5], [4.0, 2.0]])
    return Logs(reward, behaviour, target, np.ones((2, 2)), q, v)


def test_estimates_worked_out_by_hand() -> None:
    logs = two_steps()
    np.testing.assert_allclose(logs.weights(), [[2.0, 1.0], [0.5, 0.5]])
    assert trajectory_importance(logs) == pytest.approx((1.0 * 3 + 0.5 * 7) / 2)
    assert trajectory_self_normalised(logs) == pytest.approx((1.0 * 3 + 0.5 * 7) / 1.5)
    assert per_decision(logs) == pytest.approx((2 * 1 + 1 * 2 + 0.5 * 3 + 0.5 * 4) / 2)
    assert direct_method(logs) == pytest.approx((2.5 + 4.0) / 2)
    first = 2 * (1 - 2) + 2.5 + 1 * (2 - 1) + 2 * 1.5
    second = 0.5 * (3 - 5) + 4 + 0.5 * (4 - 3) + 0.5 * 2
    assert doubly_robust_value(logs) == pytest.approx((first + second) / 2)
    assert effective_sample_size(logs) == pytest.approx(1.5**2 / 1.25)


def test_a_policy_that_logged_itself_gets_its_mean_return() -> None:
    draw = np.random.default_rng(0)
    logp, reward = np.log(draw.uniform(0.1, 1, (50, 4))), draw.standard_normal((50, 4))
    mask = (np.arange(4) < draw.integers(1, 5, (50, 1))).astype(float)
    logs = Logs(reward, logp, logp, mask, np.zeros((50, 4)), np.zeros((50, 4)), gamma=0.9)
    for name, estimator in ESTIMATORS.items():
        if name != "direct method":
            assert estimator(logs) == pytest.approx(logs.returns.mean()), name
    assert effective_sample_size(logs) == pytest.approx(50)


def test_what_did_not_take_place_counts_for_nothing() -> None:
    logs = two_steps()
    mask = np.array([[1.0, 0.0], [1.0, 1.0]])
    changed = {
        "reward": np.where(mask > 0, logs.reward, 99.0),
        "target_logp": np.where(mask > 0, logs.target_logp, -9.0),
    }
    before = Logs(**{**vars(logs), "mask": mask})
    after = Logs(**{**vars(before), **changed})
    for estimator in ESTIMATORS.values():
        assert estimator(after) == pytest.approx(estimator(before))


def test_weighted_estimators_are_unbiased_over_all_that_can_happen() -> None:
    """Two steps of two actions: every log of one rollout, weighted by its chance, averages to the exact value."""
    b, p, r = (np.array(x) for x in ([0.3, 0.7], [0.6, 0.4], [[1.0, 2.0], [0.5, -1.0]]))
    exact = float((p * r[0]).sum() + (p * r[1]).sum())
    q = np.array([[0.2, 0.9], [0.4, 0.1]])  # any model will do
    for estimator in (trajectory_importance, per_decision, doubly_robust_value):
        total = 0.0
        for one in range(2):
            for two in range(2):
                at = np.array([[one, two]])
                logs = Logs(
                    *(r[[[0, 1]], at], np.log(b[at]), np.log(p[at]), np.ones((1, 2)), q[[[0, 1]], at]),
                    v=(q * p).sum(1)[None],
                )
                total += b[one] * b[two] * estimator(logs)
        assert total == pytest.approx(exact)


def test_logs_that_do_not_fit_together_are_refused() -> None:
    logs = two_steps()
    with pytest.raises(PodiumError, match=r"target_logp has the shape \(2, 1\), but rewards have \(2, 2\)"):
        Logs(logs.reward, logs.behaviour_logp, logs.target_logp[:, :1], logs.mask)
    bare = Logs(logs.reward, logs.behaviour_logp, logs.target_logp, logs.mask)
    with pytest.raises(PodiumError, match="needs a model of returns"):
        doubly_robust_value(bare)
