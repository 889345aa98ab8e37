"""Gaps between groups against fairlearn's metrics."""

from __future__ import annotations

import numpy as np
import pytest

from podium.tables.group_gaps import group_metrics, metric_differences

metrics = pytest.importorskip(
    "fairlearn.metrics", reason="fairlearn is not installed: `make parity` runs these tests in an environment with it"
)


@pytest.mark.parametrize("seed", range(5))
def test_gaps_and_rates_are_those_of_fairlearn(seed: int) -> None:
    draw = np.random.default_rng(seed)
    group = draw.choice(["a", "b"], 200)
    label = draw.integers(0, 2, 200)
    answer = np.where(draw.random(200) < 0.3, (group == "a").astype(int), label)
    by_group, accuracy = group_metrics(label, answer, list(group))
    assert accuracy == pytest.approx((label == answer).mean())
    theirs = metrics.MetricFrame(
        metrics={"SP": metrics.selection_rate, "EoO": metrics.true_positive_rate},
        y_true=label,
        y_pred=answer,
        sensitive_features=group,
    )
    for name in "ab":
        for key in ("SP", "EoO"):
            assert by_group[name][key] == pytest.approx(theirs.by_group.loc[name, key], abs=1e-12)
    ours = metric_differences(by_group)
    assert ours["SP"] is not None
    assert ours["EoO"] is not None
    given = {"y_true": label, "y_pred": answer, "sensitive_features": group}
    assert abs(ours["SP"]) == pytest.approx(metrics.demographic_parity_difference(**given), abs=1e-12)
    assert abs(ours["EoO"]) == pytest.approx(metrics.equal_opportunity_difference(**given), abs=1e-12)
