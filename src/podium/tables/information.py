"""Partial information decomposition of a disparity over clients, and the best accuracy under bounds on it.

Joint tables are [client s, attribute z, decision ŷ]; information is in bits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from podium.core.errors import PodiumError

__all__ = [
    "Decomposition",
    "Disparities",
    "FairOptimum",
    "conditional_information",
    "decomposition",
    "disparities",
    "fair_optimum",
    "parity_bound",
    "parity_gaps",
    "permutation_baseline",
    "table_information",
]

Array = np.ndarray
ZERO = 1e-9  # what is nearer to 0 is 0


def table_information(table: ArrayLike) -> float:
    """I(row; column) of a joint table, which is scaled to sum 1; empty cells count 0."""
    p = np.asarray(table, dtype=float)
    if p.sum() <= 0:
        return 0.0
    p = p / p.sum()
    independent = p.sum(1, keepdims=True) * p.sum(0, keepdims=True)
    kept = p > 0
    return float((p[kept] * np.log2(p[kept] / independent[kept])).sum())


def conditional_information(joint: ArrayLike) -> float:
    """I(Z; Ŷ | S): the mean over clients of the information within each."""
    p = np.asarray(joint, dtype=float)
    p = p / p.sum()
    return float(sum(client.sum() * table_information(client) for client in p))


def parity_gaps(joint: ArrayLike) -> tuple[float, list[float]]:
    """P(ŷ = 1 | z = 1) − P(ŷ = 1 | z = 0), over everybody and within each client; nan where a group is missing."""
    p = np.asarray(joint, dtype=float)

    def gap(table: Array) -> float:
        size = table.sum(1)
        return float(table[1, 1] / size[1] - table[0, 1] / size[0]) if size.min() > 0 else float("nan")

    return gap(p.sum(0)), [gap(client) for client in p]


def parity_bound(information: float, share: float) -> float:
    """The largest parity gap that an information, in bits, allows: sqrt(I / 2) / (2α(1 − α)), I in nats, α = P(z = 0)
    (Pinsker)."""
    return float(np.sqrt(information * np.log(2) / 2) / (2 * share * (1 - share)))


@dataclass(frozen=True)
class Disparities:
    """How a decision depends on the attribute, over everybody and within clients; no solver is needed."""

    global_disparity: float  # I(Z; Ŷ)
    local_disparity: float  # I(Z; Ŷ | S)
    redundant_minus_masked: float
    global_parity: float
    local_parity: list[float]


def disparities(joint: ArrayLike) -> Disparities:
    """Global − local = redundant − masked."""
    p = np.asarray(joint, dtype=float)
    whole, local = table_information(p.sum(0)), conditional_information(p)
    return Disparities(whole, local, whole - local, *parity_gaps(p))


@dataclass(frozen=True)
class FairOptimum:
    """The best decision that bounds on both disparities allow."""

    error: float
    accuracy: float


@dataclass(frozen=True)
class Decomposition:
    """Global disparity = unique + redundant; local disparity = unique + masked."""

    unique: float  # Uni(Z : Ŷ | S)
    redundant: float
    masked: float
    unique_client: float  # Uni(Z : S | Ŷ)
    global_disparity: float  # I(Z; Ŷ)
    local_disparity: float  # I(Z; Ŷ | S)


def decomposition(joint: ArrayLike) -> Decomposition:
    """The BROJA decomposition: the unique part is the least I_Q(Z; Ŷ | S) over joints Q with the margins (z, ŷ) and
    (z, s) of P."""
    p = np.asarray(joint, dtype=float)
    p = p / p.sum()
    whole, local = table_information(p.sum(0)), conditional_information(p)
    client = table_information(p.sum(2).T)
    unique = min(_unique(p), whole, local)  # the minimum is approached from above
    redundant = whole - unique
    parts = (unique, redundant, local - unique, client - redundant, whole, local)
    return Decomposition(*(x if abs(x) > ZERO else 0.0 for x in parts))


def _unique(p: Array) -> float:
    """min I_Q(Z; Ŷ | S). For every z the table Q(s, ŷ | z) moves by cycles that keep its margins; the objective is
    convex in them, and SLSQP starts at the independent table, which is inside."""
    from scipy.optimize import minimize  # type: ignore[import-untyped]

    clients, groups, answers = p.shape
    size = p.sum((0, 2))
    start = np.einsum("sz,zy->szy", p.sum(2), p.sum(0)) / np.maximum(size, 1e-300)[None, :, None]
    basis = []
    for z in range(groups):
        for s in range(clients - 1):
            for y in range(answers - 1):
                move = np.zeros_like(p)
                move[s, z, y] = move[-1, z, -1] = 1.0
                move[s, z, -1] = move[-1, z, y] = -1.0
                rows, columns = p.sum(2)[[s, -1], z], p.sum(0)[z, [y, -1]]
                if min(rows.min(), columns.min()) > 0:  # an empty margin leaves nothing to move
                    basis.append(move.ravel())
    if not basis:
        return conditional_information(start)
    moves, origin = np.stack(basis), start.ravel()

    def table(t: Array) -> Array:
        return np.maximum(origin + t @ moves, 0.0).reshape(p.shape)

    def objective(t: Array) -> float:
        q = table(t)
        # −H(Z | S, Ŷ), to which H(Z | S) is a constant
        over = q.sum(1, keepdims=True)
        kept = q > 0
        return float((q[kept] * np.log2(q[kept] / np.broadcast_to(over, q.shape)[kept])).sum())

    def slope(t: Array) -> Array:
        q = np.maximum(table(t), 1e-15)
        return moves @ np.log2(q / q.sum(1, keepdims=True)).ravel()

    inside: dict[str, Any] = {"type": "ineq", "fun": lambda t: origin + t @ moves, "jac": lambda t: moves.T}
    t, value = np.zeros(len(moves)), objective(np.zeros(len(moves)))
    for _ in range(20):  # a restart at the best point forgets a stale estimate of the curvature
        found = minimize(
            objective, t, jac=slope, constraints=[inside], method="SLSQP", options={"ftol": 1e-15, "maxiter": 500}
        )
        new = objective(found.x)
        if not value - new > 1e-13:
            break
        t, value = found.x, new
    return conditional_information(_feasible(table(t), p))


def _feasible(q: Array, p: Array) -> Array:
    """Q with the margins of P again, after a step that left them by rounding."""
    for _ in range(3):
        q = q * np.divide(p.sum(2), q.sum(2), out=np.zeros_like(p.sum(2)), where=q.sum(2) > 0)[:, :, None]
        q = q * np.divide(p.sum(0), q.sum(0), out=np.zeros_like(p.sum(0)), where=q.sum(0) > 0)[None]
    return q


def fair_optimum(count: ArrayLike, positive: ArrayLike, eps_global: float, eps_local: float) -> FairOptimum:
    """The least error of any randomised decision of (s, z, label) with I(Z; Ŷ) ≤ ε_g and I(Z; Ŷ | S) ≤ ε_l: the
    accuracy and global–local fairness optimality problem. `count` and `positive` (label 1) are [client, attribute]."""
    from scipy.optimize import linprog, minimize

    n, pos = np.asarray(count, dtype=float), np.asarray(positive, dtype=float)
    total = n.sum()
    mass, yes = n / total, pos / total
    no = mass - yes
    size = n.size
    # The variables are the masses of true positives and of false positives of each cell.
    upper = np.concatenate([yes.ravel(), no.ravel()])
    cost, constant = np.concatenate([-np.ones(size), np.ones(size)]), float(yes.sum())

    def accepted(v: Array) -> Array:
        return (v[:size] + v[size:]).reshape(n.shape)

    def linear_rows() -> Array:
        """Equal acceptance rates, where a bound is 0."""
        rows = []
        pooled = mass.sum(0)
        if eps_global == 0 and len(pooled) > 1:
            for z in range(1, n.shape[1]):
                row = np.zeros(n.shape)
                row[:, z], row[:, 0] = 1 / pooled[z], -1 / pooled[0]
                rows.append(np.tile(row.ravel(), 2))
        if eps_local == 0:
            for s, z in np.ndindex(n.shape[0], n.shape[1] - 1):
                if mass[s, 0] > 0 and mass[s, z + 1] > 0:
                    row = np.zeros(n.shape)
                    row[s, z + 1], row[s, 0] = 1 / mass[s, z + 1], -1 / mass[s, 0]
                    rows.append(np.tile(row.ravel(), 2))
        return np.array(rows).reshape(-1, 2 * size)

    def both_disparities(v: Array) -> tuple[float, float]:
        a = np.clip(accepted(v), 0.0, mass)
        joint = np.stack([mass - a, a], -1)
        return table_information(joint.sum(0)), conditional_information(joint)

    rows = linear_rows()
    bounds = [(0.0, float(u)) for u in upper]
    equal = {"A_eq": rows, "b_eq": np.zeros(len(rows))} if len(rows) else {}
    fair = linprog(cost, bounds=bounds, **equal)
    if all(i <= e + 1e-12 or e == 0 for i, e in zip(both_disparities(fair.x), (eps_global, eps_local), strict=True)):
        return FairOptimum(float(fair.fun + constant), float(1.0 - fair.fun - constant))

    def information_slope(v: Array, local: bool) -> Array:
        """The derivative of the information by the accepted masses: log of the odds against those of the margin."""
        a = np.clip(accepted(v), 1e-12, np.maximum(mass - 1e-12, 1e-12))
        if local:
            rate, overall = a / np.maximum(mass, 1e-12), (a.sum(1) / mass.sum(1))[:, None]
        else:
            rate = np.broadcast_to(a.sum(0) / mass.sum(0), n.shape)
            overall = a.sum() / mass.sum()
        slope = np.log2(rate / (1 - rate)) - np.log2(overall / (1 - overall))
        return np.tile(np.where(mass > 0, slope, 0.0).ravel(), 2)

    constraints: list[dict[str, Any]] = []
    for k, eps in enumerate((eps_global, eps_local)):
        if eps > 0:
            constraints.append(
                {
                    "type": "ineq",
                    "fun": lambda v, k=k, eps=eps: eps - both_disparities(v)[k],
                    "jac": lambda v, k=k: -information_slope(v, k == 1),
                }
            )
    if len(rows):
        constraints.append({"type": "eq", "fun": lambda v: rows @ v, "jac": lambda v: rows})
    # Both disparities are 0 where everyone is accepted at the overall rate, which is inside every bound.
    rate = float(yes.sum())
    start = np.concatenate([rate * yes.ravel(), rate * no.ravel()])
    best: float | None = None
    for share in (0.0, 0.5):
        v = (1 - share) * start + share * fair.x
        found = minimize(
            lambda v: float(cost @ v),
            v,
            jac=lambda v: cost,
            bounds=bounds,
            constraints=constraints,
            method="SLSQP",
            options={"ftol": 1e-13, "maxiter": 1000},
        )
        kept = all(i <= e + 1e-7 for i, e in zip(both_disparities(found.x), (eps_global, eps_local), strict=True))
        if kept:
            best = float(found.fun) if best is None else min(best, float(found.fun))
    if best is None:
        raise PodiumError(
            f"No decision within eps_global = {eps_global} and eps_local = {eps_local} was found: the solver left the "
            "bounds from every start. Raise the bounds, or set them to 0 for exact parity."
        )
    return FairOptimum(best + constant, 1.0 - best - constant)


def permutation_baseline(
    z: ArrayLike, y: ArrayLike, s: ArrayLike | None = None, *, rounds: int = 200, seed: int = 0
) -> float:
    """The mean plug-in information, in bits, after z is permuted (within clients where `s` is given): what chance alone
    shows, since the plug-in estimate is biased upward."""
    a, b = (np.unique(np.asarray(x), return_inverse=True)[1] for x in (z, y))
    c = np.zeros(len(a), dtype=int) if s is None else np.unique(np.asarray(s), return_inverse=True)[1]
    generator = np.random.default_rng(seed)
    found = []
    for _ in range(rounds):
        order = np.lexsort((generator.random(len(a)), c))
        shuffled = np.empty_like(a)
        shuffled[np.argsort(c, kind="stable")] = a[order]
        joint = np.zeros((c.max() + 1, a.max() + 1, b.max() + 1))
        np.add.at(joint, (c, shuffled, b), 1.0)
        found.append(conditional_information(joint))
    return float(np.mean(found))
