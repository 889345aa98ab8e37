"""People with a known causal model, and tables that come with scikit-learn."""

from __future__ import annotations

import importlib
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from podium.core.errors import PodiumError
from podium.labs.people import CausalModel, real_table


def test_the_same_seed_draws_the_same_people() -> None:
    one, other = (CausalModel().draw(50, np.random.default_rng(3)) for _ in range(2))
    np.testing.assert_array_equal(one.x, other.x)
    assert len(one.rows(one.group == 1)) == int(one.group.sum())


def test_base_rates_shares_and_chances_are_as_stated() -> None:
    model = CausalModel(base_rates=(0.7, 0.2), shares=(0.9, 0.1))
    people = model.draw(40_000, np.random.default_rng(0))
    for z, rate in enumerate(model.base_rates):
        assert people.label[people.group == z].mean() == pytest.approx(rate, abs=0.01)
    for s, share in enumerate(model.shares):
        assert people.group[people.client == s].mean() == pytest.approx(share, abs=0.01)
    high = people.chance > 0.8
    assert people.label[high].mean() == pytest.approx(people.chance[high].mean(), abs=0.01)


def test_bias_proxies_and_drift_do_what_they_say() -> None:
    draw = np.random.default_rng
    fair, biased = (CausalModel(base_rates=(0.5, 0.5), bias=b).draw(20_000, draw(1)) for b in (0.0, 1.0))
    gap = [p.x[p.group == 0, 0].mean() - p.x[p.group == 1, 0].mean() for p in (fair, biased)]
    assert gap == pytest.approx([0.0, 1.0], abs=0.05)
    assert np.corrcoef(fair.x[:, 3], fair.group)[0, 1] > 0.6
    drifting = CausalModel(drift=np.pi / 2).draw(20_000, draw(2))
    early, late = (
        np.corrcoef(drifting.x[rows, 0], drifting.merit[rows])[0, 1] for rows in (slice(0, 4000), slice(-4000, None))
    )
    assert early > 0.7
    assert late < 0.3


def test_real_tables_are_standardised() -> None:
    x, y = real_table("digits")
    assert x.shape == (1797, 61)
    np.testing.assert_allclose(x.mean(0), 0.0, atol=1e-9)
    assert set(y) == set(range(10))
    with pytest.raises(PodiumError, match="not 'adult'"):
        real_table("adult")


def test_without_the_extra_one_sentence_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = importlib.import_module

    def refused(name: str, *rest: Any) -> Any:
        if name.startswith("sklearn"):
            raise ImportError(name)
        return plain(name, *rest)

    monkeypatch.setattr(importlib, "import_module", refused)
    with pytest.raises(PodiumError, match=r"digits needs scikit-learn: pip install 'podium-rl\[tables\]'"):
        real_table("digits")


def test_who_trains_language_models_never_meets_the_extra() -> None:
    """Neither the package, its parts and methods, nor the list of labs import what only the extra brings."""
    code = (
        "import sys, podium, podium.labs, podium.memories, podium.parts.select; podium.methods.get('grpo');"
        "print([name for name in ('sklearn', 'gymnasium') if name in sys.modules])"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300)
    assert said.stdout.strip() == "[]"
