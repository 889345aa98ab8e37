"""Trials of choosers and small networks: each runs in its smallest size, and its mathematics is worked out by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import podium
from podium.labs import LABS
from podium.labs.experiments import earli
from podium.labs.experiments.bs_iris import SIDE, clicked, dice
from podium.labs.experiments.debate_reward import three_steps, weighted_value
from podium.labs.trial import TrialFindings
from podium.policy.choose.chooser import Chooser
from podium.worlds.patients import Cohort
from podium.worlds.routes import Routes

SMALLEST: dict[str, dict[str, int]] = {
    "debate-reward": {"patients": 30, "iterations": 1, "updates": 5, "tested": 30},
    "gf-screen": {"iterations": 1, "tasks": 2, "eval_tasks": 2},
    "earli": {"iterations": 1, "tasks": 2, "instances": 1},
    "bs-iris": {"scans": 4, "updates": 2, "tested": 3, "clicks": 2},
}


@pytest.mark.parametrize("slug", SMALLEST)
def test_a_trial_runs_and_has_a_verdict_and_a_picture(
    slug: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(earli, "GRID", (0.01, 0.02, 0.03))
    found = podium.lab(slug, out=tmp_path, seeds=2, **SMALLEST[slug])
    assert isinstance(found, TrialFindings)
    assert {v.word for v in found.verdicts()} <= {"agrees", "does not agree", "undecided"}
    page = (tmp_path / "lab.html").read_text(encoding="utf-8")
    assert len(LABS[slug].charts) == 1
    assert "<svg" in page


# -- debate-reward -----------------------------------------------------------------------------------------------------


def test_returns_over_three_steps_by_hand() -> None:
    summed, place = three_steps(torch.tensor([[1.0, 2.0, 0.0, 4.0]]), gamma=0.5)
    assert summed.tolist() == [[2.0, 3.0, 2.0, 4.0]]
    assert place.tolist() == [3, 4, 4, 4]


def test_a_policy_like_the_records_is_worth_the_mean_of_those_that_it_repeats() -> None:
    """Records of one decision, taken with probability 1/2: the weight of what the policy would not do is nearly 0."""
    state, chance = np.zeros((4, 2, 12)), np.full((4, 1), 0.5)
    records = Cohort(state, np.array([[0], [0], [1], [1]]), chance, np.array([[1.0], [0.0], [-1.0], [-1.0]]))
    assert weighted_value(records, np.zeros((4, 1), dtype=int)) == pytest.approx(0.5, abs=0.01)
    assert weighted_value(records, np.ones((4, 1), dtype=int)) == pytest.approx(-1.0, abs=0.01)


# -- bs-iris -----------------------------------------------------------------------------------------------------------


def test_the_user_clicks_the_supervoxel_with_the_most_wrong_voxels_until_none_is_wrong() -> None:
    truth = torch.zeros(1, SIDE, SIDE, SIDE, dtype=torch.bool)
    truth[0, 3:6, 3:6, 3:6] = True  # a supervoxel
    p = torch.zeros(1, SIDE, SIDE, SIDE)
    p[0, 0, 0, 0] = 1.0  # one voxel of another is wrong, too
    none = torch.zeros(1, 2, SIDE, SIDE, SIDE)
    hints = clicked(p, truth, none)
    assert torch.equal(hints[:, 0] > 0, truth)
    assert hints[:, 1].sum() == 0
    again = clicked(hints[:, 0] + p, truth, hints)
    assert again[:, 1].sum() == 27
    assert again[0, 1, 0, 0, 0] == 1
    assert torch.equal(clicked(truth.float(), truth, again), again)


def test_dice_by_hand() -> None:
    truth = torch.tensor([[True, True, False], [False, False, False]])
    assert dice(torch.tensor([[0.9, 0.1, 0.9], [0.0, 0.0, 0.0]]), truth).tolist() == [0.5, 1.0]


# -- earli -------------------------------------------------------------------------------------------------------------


def test_a_policy_builds_tours_that_can_be_driven_and_the_first_is_always_the_same() -> None:
    routing = Routes(level=1).routing(0)
    chooser = Chooser({"features": 16, "width": 8, "layers": 1, "heads": 1})
    first, again = (earli.built(chooser, routing, 4, np.random.default_rng(seed)) for seed in (0, 1))
    assert all(sorted(tour) == list(range(1, 11)) for tour in (*first, *again))
    assert first[0] == again[0]
    assert first[1:] != again[1:]


def test_the_cost_at_a_budget_is_the_best_until_then() -> None:
    trace = [(0.3, 5.0), (0.6, 4.0), (2.0, 3.0)]
    assert earli.cost_at(trace).tolist() == [5.0, 5.0, 4.0, 4.0, 3.0]
