"""Disparity in federated learning, decomposed."""

from __future__ import annotations

from podium.methods.catalogue import entry

entry(
    __name__,
    summary="Splits a disparity over clients into unique, redundant and masked parts, and bounds accuracy under both.",
    citation="Demystifying Local and Global Fairness Trade-offs in Federated Learning Using Partial Information "
    "Decomposition, ICLR 2024, https://arxiv.org/abs/2307.11333, code: "
    "https://github.com/FaisalHamman/FairFL-PID",
    kind="metric",
    run="podium lab pid-federated-fairness",
    tags=("fairness", "federated learning", "mutual information", "partial information decomposition"),
    notes="""
    Global disparity I(Z; Ŷ) = unique + redundant; local disparity I(Z; Ŷ | S) = unique + masked, exactly. The
    unique part is the least I_Q(Z; Ŷ | S) over joints with the same margins (z, ŷ) and (z, s): a convex program,
    solved by SLSQP from the independent table and checked against a grid search and against cvxpy. The best
    accuracy under bounds on both disparities (AGLFOP) is a second one.

    The code's: BROJA by `dit`, AGLFOP by SLSQP from one random start; splits of the clients: even, by group (92 %
    to 8 %), and by whether the label is the group. Ours: gradients, several starts, FedAvg of a small network on
    people with a known causal model instead of Adult.
    """,
)
