"""Inverse gap weighting against Vowpal Wabbit's `--squarecb`, learned from the same stream."""

from __future__ import annotations

import numpy as np
import pytest

from podium.tables.inverse_gap import inverse_gap_probabilities, practical_gamma

vw = pytest.importorskip(
    "vowpalwabbit", reason="vowpalwabbit is not installed: `make parity` runs these tests in an environment with it"
)
ACTIONS, SCALE, EXPONENT = 4, 6.0, 0.5


def example(context: int, chosen: int | None = None, cost: float = 0.0, chance: float = 1.0) -> list[str]:
    """An event in Vowpal Wabbit's text format, with the cost of what was chosen, if it is known."""
    labels = [f"0:{cost}:{chance} " if n == chosen else "" for n in range(ACTIONS)]
    return [f"shared |c s{context}", *(f"{label}|a a{n} s{context}a{n}" for n, label in enumerate(labels))]


def test_probabilities_are_those_of_vowpal_wabbit() -> None:
    explores = vw.Workspace(f"--cb_explore_adf --squarecb --gamma_scale {SCALE} --gamma_exponent {EXPONENT} --quiet")
    predicts = vw.Workspace("--cb_adf --quiet")  # its scores are the costs that the former's policy is made from
    draw, compared = np.random.default_rng(0), 0
    for round in range(1, 200):
        context = int(draw.integers(3))
        theirs = np.array(explores.predict(example(context)))
        costs = np.array(predicts.predict(example(context)))
        ours = inverse_gap_probabilities(costs, practical_gamma(round, SCALE, EXPONENT), losses=True)
        if len(set(np.round(costs, 6))) == ACTIONS:  # ties may be broken either way
            np.testing.assert_allclose(theirs, ours, atol=2e-5)
            compared += 1
        chosen = int(draw.choice(ACTIONS, p=theirs / theirs.sum()))
        cost = float(draw.random() < 0.2 + 0.2 * ((chosen + context) % ACTIONS))
        for workspace in (explores, predicts):
            workspace.learn(example(context, chosen, cost, float(theirs[chosen])))
    assert compared > 100
