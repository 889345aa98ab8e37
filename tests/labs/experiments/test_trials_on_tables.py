"""The trials on tables: each runs in its smallest size, and what should be equal is equal number for number."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import podium
from podium.labs import LABS
from podium.labs.experiments import one_sided_feedback
from podium.labs.experiments.a2pr import Field, _data, offline_actor
from podium.labs.experiments.adaptive_equitable_sampling import Genomes
from podium.labs.experiments.aranyani import forest_stream
from podium.labs.experiments.distraction_fairness import trained
from podium.labs.experiments.groupwise_regret import OnlineRidge, group_errors, people_stream
from podium.labs.experiments.one_sided_feedback import Loans
from podium.labs.experiments.ota import Maze, fitted_values
from podium.labs.experiments.sharpe_ratio_at_k import EpisodicProcess, logged_episodes
from podium.labs.experiments.sqirl import processes, shallow_policy, sqirl_episodes
from podium.labs.people import CausalModel
from podium.labs.trial import TrialFindings

SMALLEST: dict[str, dict[str, int]] = {
    "squarecb": {"generations": 3, "decisions": 60},
    "one-sided-feedback": {"rounds": 80},
    "groupwise-regret": {"rounds": 150},
    "adaptive-equitable-sampling": {"budget": 100, "purchases": 2},
    "action-grouping": {"processes": 2},
    "aranyani": {"people": 60},
    "distraction-fairness": {"people": 200, "epochs": 1},
    "pid-federated-fairness": {"people": 400, "rounds": 1},
    "llm-tabular-fairness": {"rows": 24, "learned": 16, "updates": 1},
    "sharpe-ratio-at-k": {"processes": 2, "episodes": 30},
    "sqirl": {"episodes": 60},
    "ota": {"side": 10, "walks": 8, "updates": 4},
    "a2pr": {"episodes": 3, "updates": 4, "tested": 2},
}


@pytest.mark.parametrize("slug", SMALLEST)
def test_a_trial_runs_and_has_a_verdict_and_a_picture(slug: str, tmp_path: Path) -> None:
    found = podium.lab(slug, out=tmp_path, seeds=2, **SMALLEST[slug])
    assert isinstance(found, TrialFindings)
    assert {v.word for v in found.verdicts()} <= {"agrees", "does not agree", "undecided"}
    page = (tmp_path / "lab.html").read_text(encoding="utf-8")
    assert page.count("<svg") == len(LABS[slug].charts) == 1
    assert found.agreement().startswith("The paper says that")
    again = podium.lab(slug, out=tmp_path, seeds=2, **SMALLEST[slug])  # read back, not run again
    assert again.as_dict() == found.as_dict()


def weights(module: torch.nn.Module) -> list[Any]:
    return [p.detach().numpy() for p in module.parameters()]


def test_without_its_gate_a2pr_is_td3_with_cloning() -> None:
    data, _, _ = _data(Field, 0, 3)
    ungated, cloning = (offline_actor(data, how, 6, 0, gate=False) for how in ("a2pr", "td3_bc"))
    for one, other in zip(weights(ungated), weights(cloning), strict=True):
        np.testing.assert_array_equal(one, other)
    gated = offline_actor(data, "a2pr", 6, 0)
    assert any((x != y).any() for x, y in zip(weights(gated), weights(cloning), strict=True))


def test_penalties_do_not_see_each_other_and_zero_is_plain_learning() -> None:
    people = CausalModel().draw(120, np.random.default_rng(0))
    alone = forest_stream(people, (0.0,), 0)[0]
    beside = forest_stream(people, (0.0, 5.0), 0)
    assert torch.equal(alone, beside[0])
    assert not torch.equal(beside[0], beside[1])


def test_the_joint_loss_without_module_differs_from_plain_and_seeds_repeat() -> None:
    people = CausalModel().draw(200, np.random.default_rng(0))
    plain, again, joint = (trained(people, how, 1, 0)[0] for how in ("plain", "plain", "joint"))
    for one, other in zip(weights(plain), weights(again), strict=True):
        np.testing.assert_array_equal(one, other)
    assert any((x != y).any() for x, y in zip(weights(plain), weights(joint), strict=True))


def test_recursive_ridge_is_ridge_regression() -> None:
    x, y, _ = people_stream(60, np.random.default_rng(0))
    learner = OnlineRidge(x.shape[1])
    for row, target in zip(x, y, strict=True):
        learner.update(row, float(target))
    exact = np.linalg.solve(x.T @ x + np.eye(x.shape[1]), x.T @ y)
    np.testing.assert_allclose(learner.weight, exact, atol=1e-9)


def test_one_group_is_one_regression() -> None:
    x, y, member = people_stream(80, np.random.default_rng(0))
    everybody = (x, y, member[:, :1])
    np.testing.assert_array_equal(group_errors(everybody, grouped=True), group_errors((x, y, member), grouped=False))


def test_labels_of_rejected_loans_are_never_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    plain, rejected = one_sided_feedback.exp2_round, []

    def spy(h: Any, total: Any, played: int, label: Any, *rest: Any, **settings: Any) -> Any:
        rejected.extend(y for y, accepted in zip(label, h[played], strict=True) if not accepted)
        return plain(h, total, played, label, *rest, **settings)

    monkeypatch.setattr(one_sided_feedback, "exp2_round", spy)
    one_sided_feedback._exp2(1.0, 1.0, 0, one_sided_feedback.LoanSize(rounds=30))
    assert len(rejected) > 10
    assert set(rejected) == {None}


def test_the_fair_mixture_is_never_reported_and_no_better_than_unfair_rules() -> None:
    loans = Loans(60, 1)
    unfair = (loans.rules != loans.label).mean((1, 2)).min()
    constant = min((loans.label == 1).mean(), (loans.label == 0).mean())
    assert unfair - 1e-9 <= loans.fair_best() <= constant + 1e-9


def test_more_genomes_give_better_scores() -> None:
    genomes = Genomes(0, 600)
    for group in range(3):
        assert genomes.tested_error(group, 600) < genomes.tested_error(group, 40)


def test_logged_episodes_have_the_value_of_their_policy() -> None:
    draw = np.random.default_rng(0)
    process = EpisodicProcess(draw)
    policy = draw.dirichlet(np.ones(4), (6, 12))
    reward = logged_episodes(process, policy, 20_000, draw)[2]
    assert reward.sum(1).mean() == pytest.approx(process.worth(policy), abs=0.03)


def test_with_many_episodes_shallow_values_solve_a_process_and_few_do_not() -> None:
    bandit = next(p for p in processes() if p.name == "bandit of 5 steps")
    policy = shallow_policy(bandit, 1, 4000, np.random.default_rng(0))
    assert bandit.worth(policy) == pytest.approx(bandit.best())
    assert bandit.worth(None) < bandit.worth(policy)
    lock = next(p for p in processes() if p.name == "keydoor, level 1")
    assert sqirl_episodes(lock, 20, 0) == 40  # twice the limit: not solved


def test_a_maze_has_one_way_and_values_over_options_fall_with_distance() -> None:
    maze = Maze(6, np.random.default_rng(0))
    assert sum(map(len, maze.near)) == 2 * (maze.cells - 1)  # a tree
    assert maze.distance.min() == 0
    far = np.unravel_index(maze.distance.argmax(), maze.distance.shape)
    assert maze.distance[maze.toward(int(far[0]), int(far[1])), far[1]] == maze.distance[far] - 1
    walks = torch.tensor([maze.walk(np.random.default_rng(n)) for n in range(20)])
    assert (maze.distance[walks[:, :-1], walks[:, 1:]] == 1).all()
    values = fitted_values(walks, maze.cells, 5, 1500, 0)
    here, goal = (torch.tensor(x.ravel()) for x in np.indices(maze.distance.shape))
    with torch.no_grad():
        value = values(here, goal)[0].numpy()
    assert np.corrcoef(value, maze.distance.ravel())[0, 1] < -0.5
