"""The decomposition of a disparity and the fair optimum, against the same convex programs in cvxpy."""

from __future__ import annotations

import numpy as np
import pytest

from podium.tables.information import conditional_information, decomposition, fair_optimum

cp = pytest.importorskip(
    "cvxpy", reason="cvxpy is not installed: `make parity` runs these tests in an environment with it"
)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("shape", [(2, 2, 2), (3, 2, 2), (3, 3, 2)])
def test_the_unique_part_is_the_minimum_that_cvxpy_finds(shape: tuple[int, int, int], seed: int) -> None:
    joint = np.random.default_rng(seed).dirichlet(np.ones(np.prod(shape))).reshape(shape)
    q = [cp.Variable(shape[1:], nonneg=True) for _ in range(shape[0])]  # [client] of [attribute, decision]
    spread = np.ones((shape[1], 1))
    without_client = sum(cp.sum(cp.rel_entr(x, spread @ cp.sum(x, axis=0, keepdims=True))) for x in q)
    margins = [cp.sum(x, axis=1) == joint[s].sum(1) for s, x in enumerate(q)]
    problem = cp.Problem(cp.Minimize(without_client), [sum(q) == joint.sum(0), *margins])
    problem.solve()
    theirs = conditional_information(np.stack([np.maximum(x.value, 0) for x in q]))
    assert decomposition(joint).unique == pytest.approx(theirs, abs=2e-5)


@pytest.mark.parametrize(("eps_global", "eps_local"), [(0.01, 0.01), (0.0, 0.05), (0.1, 0.02), (1.0, 1.0)])
def test_the_fair_optimum_is_the_minimum_that_cvxpy_finds(eps_global: float, eps_local: float) -> None:
    count, positive = np.array([[300.0, 200], [100, 400]]), np.array([[90.0, 120], [20, 240]])
    mass, yes = count / count.sum(), positive / count.sum()
    right, wrong = cp.Variable(mass.shape, nonneg=True), cp.Variable(mass.shape, nonneg=True)
    accepted = right + wrong

    def information(a: object, whole: np.ndarray) -> object:
        """I(attribute; decision) in nats, of accepted masses by attribute, weighed by the size of the whole."""
        size, share = whole.sum(), whole / whole.sum()
        return cp.sum(cp.rel_entr(a, share * cp.sum(a))) + cp.sum(cp.rel_entr(whole - a, share * (size - cp.sum(a))))

    within = information(cp.sum(accepted, axis=0), mass.sum(0)) <= eps_global * np.log(2)
    local = sum(information(accepted[s], mass[s]) for s in range(len(mass))) <= eps_local * np.log(2)
    error = cp.sum(wrong) + cp.sum(yes - right)
    problem = cp.Problem(cp.Minimize(error), [right <= yes, wrong <= mass - yes, within, local])
    problem.solve()
    assert fair_optimum(count, positive, eps_global, eps_local).error == pytest.approx(problem.value, abs=2e-5)
