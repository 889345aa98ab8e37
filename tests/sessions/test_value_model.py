"""A value model from logged runs: it learns which tasks are solved, and says so before anything is sampled."""

from __future__ import annotations

import math
import shutil
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from podium import methods, policy, worlds
from podium.analysis.ranking import auc
from podium.cli.app import main
from podium.core.errors import PodiumError
from podium.memories import ScoreHistory
from podium.memories.score_history import question
from podium.sessions import value_model as value_models
from podium.sessions.train import resume
from podium.sessions.value_model import SolvedExamples, contexts, fit, value_model_loss
from podium.store.run_directory import RunDirectory
from tests.methods.catalogue import lines
from tests.methods.support import short_run
from tests.sessions.test_train import numbers

# Tasks of one kind are solved, those of the other are not: what a small model can tell from the prompt.
EASY, HARD = "echo: {}", "multiply: {} by {}"


def logged(path: Path, iterations: int = 6, tasks: int = 6) -> Path:
    """A run's logged rollouts, made by hand."""
    (path / "rollouts").mkdir(parents=True)
    for iteration in range(1, iterations + 1):
        rows = []
        for task in range(tasks):
            number = 10 * iteration + task
            easy = task % 2 == 0
            prompt = EASY.format(number) if easy else HARD.format(number, task + 2)
            rows += [{"iteration": iteration, "prompt": prompt, "correct": easy} for _ in range(2)]
        pq.write_table(pa.Table.from_pylist(rows), path / "rollouts" / f"iteration-{iteration:06d}.parquet")
    return path


def test_a_context_holds_the_scores_before_and_pairs_of_tasks_to_ask_about(tmp_path: Path) -> None:
    found = contexts(logged(tmp_path / "run"), support=4)
    assert len(found) == 5
    assert len(found[0].shown) == 4
    texts, scores = found[0].rows(4)
    assert scores.tolist() == [1.0, 0.0] * 3
    assert found[0].pairs == 3
    assert texts[0].endswith("->")
    assert texts[0].count("\n") == 4


def test_what_is_asked_names_solved_and_failed_tasks_before_the_one_in_question() -> None:
    scores = [("a", 1.0), ("b", 0.0), ("c", 0.5)]
    assert question(scores, "d", 2) == "b -> 0\nc -> 1\nd ->"
    assert question(scores, "x" * 9, 1, longest=3) == "c -> 1\nxxx ->"


def test_a_fitted_model_tells_solved_tasks_from_others_and_is_read_back_as_it_was(tmp_path: Path) -> None:
    run = logged(tmp_path / "run")
    found = fit([run], tmp_path / "value", support=2, steps=12, lr=1e-3)
    assert found.auc > 0.9
    assert found.pair_accuracy > 0.9
    assert policy.has_head(tmp_path / "value")
    texts = [question((), EASY.format(7), 2), question((), HARD.format(7, 3), 2)]
    easy, hard = policy.values_of(policy.read_critic(tmp_path / "value"), texts).tolist()
    assert easy > hard
    again = fit([run], tmp_path / "again", support=2, steps=12, lr=1e-3)
    assert again == found  # the same seed, the same model


@pytest.fixture(scope="module")
def value(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("value")
    fit([logged(path / "run")], path / "model", support=2, steps=2)
    return path / "model"


@pytest.mark.parametrize("slug", ["v0", "v0-5"])
def test_methods_ask_the_value_model_before_they_sample(slug: str, value: Path, tmp_path: Path) -> None:
    method = methods.get(slug, value=str(value), support=2)
    found = short_run(method, tmp_path / "run", world=worlds.get("sums", level=2), iterations=2, tasks=2).metrics[1:]
    assert all(0 < line["value"] < 1 for line in found)
    assert all(line["prior"] == pytest.approx(2 * line["value"] - 1, abs=1e-5) for line in found)
    rows = pq.read_table(tmp_path / "run/rollouts/iteration-000001.parquet").to_pylist()
    if slug == "v0":
        assert sum(row["budget"] for row in rows) == sum(
            n * n for n in {row["group"]: row["budget"] for row in rows}.values()
        )


def test_the_scores_that_a_value_model_reads_survive_a_kill(value: Path, tmp_path: Path) -> None:
    settings = {"world": worlds.get("sums", level=2), "tasks": 2, "checkpoint_every": 1, "keep_checkpoints": 4}
    short_run(methods.v0(n=4, value=str(value), support=4), tmp_path / "whole", iterations=3, **settings)
    shutil.copytree(tmp_path / "whole", tmp_path / "cut")
    for later in RunDirectory(tmp_path / "cut").checkpoints()[1:]:
        shutil.rmtree(later)
    resume(tmp_path / "cut")
    assert numbers(tmp_path / "cut") == numbers(tmp_path / "whole")


def test_a_role_without_a_head_is_refused_with_what_to_do() -> None:
    method = methods.v0(n=2, value="podium/tiny")
    with pytest.raises(PodiumError, match="has no value head: train one"):
        lines(method, worlds.get("sums"))
    alone = method.with_(roles=())
    assert any("asks the role 'value'" in str(f) for f in alone.check(("rollout.correct",)))


def test_without_a_reader_all_tasks_get_the_mean_score_so_far() -> None:
    found = ScoreHistory().recall({"scores": (("a", 1.0), ("b", 0.5))}, ["x", "y"])
    assert found["group.value"].tolist() == pytest.approx([2.5 / 4] * 2)


def test_runs_that_cannot_be_learned_from_are_refused(tmp_path: Path) -> None:
    with pytest.raises(PodiumError, match="has no logged rollouts"):
        fit([tmp_path], tmp_path / "value")
    with pytest.raises(PodiumError, match="takes two iterations"):
        fit([logged(tmp_path / "short", iterations=1)], tmp_path / "value")


def test_the_command_trains_one_and_says_how_to_use_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = logged(tmp_path / "run", iterations=3)
    assert main(["values", str(run), "--out", str(tmp_path / "value"), "--steps", "2", "--support", "2"]) == 0
    assert "--set value=" in capsys.readouterr().out
    assert main(["values", str(run), "--out", str(tmp_path / "value")]) == 2
    assert "exists already" in capsys.readouterr().err


def test_auc_counts_ties_half_and_is_undefined_without_both() -> None:
    score = torch.tensor([0.9, 0.5, 0.5, 0.1])
    assert auc(score, torch.tensor([True, True, False, False])) == pytest.approx(0.875)
    assert auc(score, torch.ones(4, dtype=torch.bool)) == -1.0


def test_the_loss_of_a_context_by_hand() -> None:
    """Scores s = 2 (a success), 1 (a failure) and 0, a row without a partner; labels 1, 0 and ½.

    Pairs: −log σ(2 − 1) = log(1 + e⁻¹) = 0.313262; with the sign changed it would be 1.313262.
    Cross-entropy: log(1 + e⁻²) = 0.126928, log(1 + e¹) = 1.313262 and log 2 = 0.693147, on average 0.711112.
    """
    logits = torch.tensor([[0.0, 2.0], [0.0, 1.0], [0.0, 0.0]], dtype=torch.float64)
    labels = torch.tensor([1.0, 0.0, 0.5], dtype=torch.float64)
    expected = 0.25 * 0.313262 + 0.75 * 0.711112
    assert float(value_model_loss(logits, labels, 0.25, pairs=1)) == pytest.approx(expected, abs=1e-6)
    assert float(value_model_loss(logits, labels, 0.25, pairs=0)) == pytest.approx(0.75 * 0.711112, abs=1e-6)


def test_a_fit_values_successes_above_failures(tmp_path: Path) -> None:
    """By the pair loss alone: with its sign changed it would do the opposite."""
    examples = [SolvedExamples((), (("sum: 1+1", 1.0), ("sum: 99+99", 0.0)))]
    with patch.object(value_models, "contexts", lambda *_: examples * 4):
        found = fit(["run"], tmp_path / "value", steps=12, alpha=1.0, held_out=0.25)
    assert found.pair_accuracy == 1.0
    assert found.loss < math.log(2)
