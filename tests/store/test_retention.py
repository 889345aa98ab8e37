"""Old rollouts are thinned: one row each, a few examples with their texts; newer ones stay whole."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch

from podium.cli import main
from podium.core import Batch, Rollout, Turn
from podium.core.errors import PodiumError
from podium.memories.pass_rates import logged_rates
from podium.report.run_page import write_report
from podium.sessions import value_model
from podium.sessions.train import resume, train
from podium.store.retention import kept_text
from podium.store.run_directory import RunDirectory
from podium.store.tables import rollout_files
from podium.strategies import Recorded
from podium.training.config import Config
from podium.training.preemption import StopRequest
from tests.sessions.test_preemption import signalled
from tests.sessions.test_train import numbers, small, weights

CONFIG = small(iterations=4, keep_examples=3)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("whole") / "run"
    train(CONFIG, out=path)
    return path


@pytest.fixture(scope="module")
def thinned(tmp_path_factory: pytest.TempPathFactory, whole: Path) -> Path:
    """A run with room for two iterations."""
    sizes = [file.stat().st_size for file in rollout_files(whole).values()]
    path = tmp_path_factory.mktemp("thinned") / "run"
    train(CONFIG.replace(keep_rollouts_gb=(sizes[-1] + sizes[-2]) / 1e9), out=path)
    return path


def test_a_small_run_keeps_everything(whole: Path) -> None:
    assert kept_text(rollout_files(whole)) == "iterations 1–4: whole"


def test_the_oldest_rollouts_are_thinned_to_rows_and_examples(whole: Path, thinned: Path) -> None:
    assert kept_text(rollout_files(thinned)) == "iterations 1–2: 3 examples each; 3–4: whole"
    before, after = (pq.read_table(RunDirectory(path).rollouts(1)) for path in (whole, thinned))
    for name in ("task", "prompt", "group", "reward", "correct", "stop", "advantage"):
        assert after[name].to_pylist() == before[name].to_pylist()
    texts = after["text"].to_pylist()
    kept = [row for row, text in enumerate(texts) if text is not None]
    assert [texts[row] for row in kept] == [before["text"].to_pylist()[row] for row in kept]
    assert len({after["group"].to_pylist()[row] for row in kept}) == 3  # of different tasks
    assert not [name for name in after.column_names if name.startswith("token.") or name == "turn.context"]
    assert RunDirectory(thinned).rollouts(1).stat().st_size < RunDirectory(whole).rollouts(1).stat().st_size


def test_thinning_changes_nothing_of_the_run_and_survives_a_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: Path
) -> None:
    with monkeypatch.context() as patched:
        signalled(patched, StopRequest, "forbid", 5)  # in the third iteration
        assert train(CONFIG.replace(keep_rollouts_gb=0.0), out=tmp_path / "run").saved == 2
    resume(tmp_path / "run")
    assert kept_text(rollout_files(tmp_path / "run")) == "iterations 1–3: 3 examples each; 4: whole"
    assert numbers(tmp_path / "run") == numbers(whole)
    assert all((weights(tmp_path / "run")[k] == w).all() for k, w in weights(whole).items())


def test_readers_of_verdicts_see_no_difference(whole: Path, thinned: Path) -> None:
    assert logged_rates(thinned) == logged_rates(whole)
    assert value_model.contexts(thinned, 8) == value_model.contexts(whole, 8)


def test_the_report_and_the_command_say_what_is_kept(thinned: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = write_report(thinned).read_text()
    assert "Rollouts that are kept: iterations 1–2: 3 examples each; 3–4: whole." in page
    assert main(["rollouts", str(thinned), "--iteration", "1", "--count", "9"]) == 0
    out = capsys.readouterr().out
    assert "The run keeps rollouts of iterations 1–2: 3 examples each; 3–4: whole" in out
    assert out.count("turn 1") == 3
    assert main(["rollouts", str(thinned), "--iteration", "4"]) == 0
    assert "keeps rollouts" not in capsys.readouterr().out


def test_what_is_replayed_is_whole(tmp_path: Path, thinned: Path) -> None:
    (note,) = Recorded(str(thinned)).prepare()
    assert note.endswith("iterations 1–2: 3 examples each; 3–4: whole: 2 of 4 are replayed.")
    assert len(Recorded(str(thinned)).groups) == 2 * 4
    with pytest.raises(PodiumError, match="keeps only examples: record a run with keep_rollouts_gb=null"):
        _ = Recorded(str(RunDirectory(thinned).rollouts(1))).groups


def test_a_run_of_an_earlier_version_keeps_what_it_has(tmp_path: Path) -> None:
    path = tmp_path / "run"
    train(CONFIG.replace(iterations=2), out=path)
    text = "".join(
        line
        for line in (path / "config.yaml").read_text().replace("iterations: 2", "iterations: 3").splitlines(True)
        if not line.startswith(("keep_rollouts_gb", "keep_examples"))
    )
    (path / "config.yaml").write_text(text)
    assert Config.from_yaml(text).keep_rollouts_gb is not None
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("podium.store.run_directory.thin_oldest", lambda *_: pytest.fail("an old run is thinned"))
        resume(path)


def test_a_damaged_file_neither_stops_thinning_nor_the_report(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    run.rollouts(1).parent.mkdir()
    run.rollouts(1).write_bytes(b"PAR1")
    run.rollouts(2).write_bytes(b"PAR1")
    (tmp_path / "rollouts/iteration-x.parquet").write_bytes(b"")
    run.thin_rollouts(0.0, 8)
    assert kept_text(rollout_files(tmp_path)) == "iterations 1–2: not readable"


@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.bfloat16])
def test_numbers_of_tokens_are_stored_exactly(tmp_path: Path, kind: torch.dtype) -> None:
    values = torch.randn(500, generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(kind)
    batch = Batch.from_rollouts([Rollout("a", [Turn(tuple(range(500)))])]).with_columns({"token.x": values})
    run = RunDirectory(tmp_path)
    run.write_rollouts(1, batch)
    assert pq.read_table(run.rollouts(1))["token.x"].to_pylist() == [values.double().tolist()]
