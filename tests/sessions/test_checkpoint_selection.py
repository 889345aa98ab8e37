"""Checkpoints chosen by off-policy estimates from what a run logged."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import podium
from podium.cli import main
from podium.core.batch import Batch
from podium.policy import load
from podium.sessions.checkpoint_selection import CheckpointSelection, _logs, logged_rollouts, select_checkpoints


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("selection") / "run"
    settings = {"world": "keydoor", "level": 1, "tasks": 4, "iterations": 3, "eval_every": 0, "eval_tasks": 1}
    podium.train(podium.methods.get("grpo", n=4), out=out, checkpoint_every=1, keep_checkpoints=4, **settings)
    return out


def test_the_policy_that_sampled_a_log_has_ratios_of_one(run: Path) -> None:
    policy = load(str(run / "checkpoints" / "iteration-000001" / "policy"))
    whole = logged_rollouts([run], 10_000)
    second = [rollout for rollout in whole if "iteration-000002" in str(rollout.group)]
    logs = _logs(Batch.from_rollouts(second), policy)
    np.testing.assert_allclose(logs.weights(), 1.0, atol=2e-3)
    np.testing.assert_allclose(logs.returns, [float(r.columns["reward"]) for r in second], atol=1e-6)
    third = [rollout for rollout in whole if "iteration-000003" in str(rollout.group)]
    assert np.abs(_logs(Batch.from_rollouts(third), policy).weights() - 1).max() > 0.01


def test_every_checkpoint_is_estimated_and_measured(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = select_checkpoints([run], rollouts=24, samples=1)
    assert len(found.candidates) == len(found.true) == 3
    assert all(np.isfinite(x).all() for x in found.estimates.values())
    assert (found.sample_size <= found.rollouts).all()
    assert main(["bench", "selection", str(run), "--rollouts", "12", "--samples", "1", "--k", "2", "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)["quality"]) == set(found.estimates)


def test_quality_of_two_estimators_with_the_same_best_differs_in_risk() -> None:
    true = np.array([0.2, 0.9, 0.8, 0.1])
    estimates = {"careful": np.array([0.1, 0.9, 0.8, 0.2]), "careless": np.array([0.1, 0.9, 0.2, 0.8])}
    found = CheckpointSelection(("a", "b", "c", "d"), true, 0.3, estimates, np.ones(4), 8)
    careful, careless = (found.quality(name, 2) for name in estimates)
    assert careful["regret"] == careless["regret"] == 0
    assert careful["sharpe"] > careless["sharpe"]


def test_a_run_with_one_checkpoint_says_how_to_get_more(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").mkdir()
    with pytest.raises(podium.PodiumError, match=r"0 checkpoints to choose from.*keep_checkpoints"):
        select_checkpoints([tmp_path])
