"""Inverse gap weighting against Vowpal Wabbit's `--squarecb`, learned from a stream."""

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
    """The gaps of its costs are read off a twin with γ = 1, which has learned the same; γ grows with that."""
    explores = vw.Workspace(f"--cb_explore_adf --squarecb --gamma_scale {SCALE} --gamma_exponent {EXPONENT} --quiet")
    twin = vw.Workspace("--cb_explore_adf --squarecb --gamma_scale 1 --gamma_exponent 0 --quiet")
    draw = np.random.default_rng(0)
    for learned in range(200):
        context = int(draw.integers(3))
        theirs = np.array(explores.predict(example(context)))
        gaps = 1 / np.array(twin.predict(example(context))) - ACTIONS
        gaps[theirs.argmax()] = 0.0  # of the best action, which gets what is left
        ours = inverse_gap_probabilities(gaps, practical_gamma(learned, SCALE, EXPONENT), losses=True)
        np.testing.assert_allclose(theirs, ours, atol=2e-5)
        chosen = int(draw.choice(ACTIONS, p=theirs / theirs.sum()))
        cost = float(draw.random() < 0.2 + 0.2 * ((chosen + context) % ACTIONS))
        for workspace in (explores, twin):
            workspace.learn(example(context, chosen, cost, float(theirs[chosen])))
    assert gaps.max() > 0.1
