"""What a resumed run says and does about damage: it goes on from the last sound checkpoint, or refuses in words."""

from __future__ import annotations

import math
import shutil
from pathlib import Path

import pytest
import torch

from podium.core.errors import PodiumError
from podium.sessions.evaluate import evaluate
from podium.sessions.train import resume, train
from podium.store.run_directory import RunDirectory
from podium.training.config import Config
from podium.training.run import Run
from tests.sessions.test_train import numbers, weights
from tests.store.damage import as_without_manifest

RECORDED = Path(__file__).parents[1] / "migrations/runs_1"


def config() -> Config:
    recorded = Config.from_yaml((RECORDED / "spear/config.yaml").read_text("utf-8"))
    return recorded.replace(model=str(RECORDED / "model"), checkpoint_every=1, keep_checkpoints=3, eval_tasks=2)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("whole") / "run"
    train(config(), out=path)
    return path


@pytest.fixture
def run(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "run"))


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 16
    file.write_bytes(content)


def same(run: Path, whole: Path) -> bool:
    return numbers(run) == numbers(whole) and all((weights(run)[k] == w).all() for k, w in weights(whole).items())


def test_the_loss_is_stated_and_trained_again(run: Path, whole: Path) -> None:
    for number in (3, 4):
        flip(run / f"checkpoints/iteration-00000{number}/policy/model.safetensors")
    with pytest.warns(
        UserWarning, match=r"^Checkpoint iteration-000004 is damaged: policy/model.safetensors has other "
    ) as w:
        resume(run)
    assert "Resuming from iteration 2: 2 iterations are trained again." in str(w[0].message)
    assert same(run, whole)
    kept = {path.name for path in (run / "checkpoints").iterdir()}
    assert {"iteration-000003.damaged", "iteration-000004.damaged", "iteration-000003", "iteration-000004"} <= kept


def test_without_a_sound_checkpoint_it_refuses_and_touches_nothing(run: Path) -> None:
    for checkpoint in RunDirectory(run).checkpoints():
        flip(checkpoint / "policy.optimizer.safetensors")
    before = {file: file.read_bytes() for file in run.rglob("*") if file.is_file()}
    with pytest.raises(
        PodiumError, match=r"has no sound checkpoint\. Checkpoint iteration-000004 is damaged.*train anew"
    ):
        resume(run)
    assert {file: file.read_bytes() for file in run.rglob("*") if file.is_file()} == before


def test_a_run_that_has_lost_its_checkpoints_does_not_start_again(run: Path) -> None:
    shutil.rmtree(run / "checkpoints")
    with pytest.raises(PodiumError, match=r"metrics up to iteration 4 but no checkpoint. Put its checkpoints back"):
        resume(run)


def test_an_evaluation_takes_the_last_sound_one_too(run: Path) -> None:
    flip(run / "checkpoints/iteration-000004/policy/tokenizer.json")
    with pytest.warns(UserWarning, match=r"tokenizer.json has other bytes.* Measured instead: iteration-000003\."):
        evaluate(run, ks=[1], tasks=1)
    with pytest.raises(PodiumError, match=r"iteration-000004 is damaged"):
        evaluate(run / "checkpoints/iteration-000004/policy", world="keydoor", ks=[1], tasks=1)


def test_a_configuration_that_cannot_be_read_is_put_back(run: Path, whole: Path) -> None:
    (run / "config.yaml").write_bytes(b"\xff\xfe")
    shutil.rmtree(run / "checkpoints/iteration-000004")
    with pytest.warns(UserWarning, match=r"config.yaml: not UTF-8.*The copy in .*iteration-000003 is used instead"):
        resume(run)
    assert (run / "config.yaml").read_text() == (whole / "config.yaml").read_text()
    assert same(run, whole)


def test_a_configuration_that_trains_something_else_is_refused(run: Path) -> None:
    RunDirectory(run).write_config(config().replace(dtype="float32", seed=7).to_yaml())
    with pytest.raises(PodiumError, match=r"not the one that the checkpoints were made with: seed differs. Put back"):
        resume(run)


def test_a_changed_limit_is_mentioned_unless_a_command_may_set_it_for_itself(run: Path) -> None:
    RunDirectory(run).write_config(
        config().replace(dtype="float32", iterations=5, keep_checkpoints=2, grace_s=7.0).to_yaml()
    )
    with pytest.warns(UserWarning, match=r"config.yaml: ") as told:
        resume(run)
    assert sorted(str(w.message).split("config.yaml: ")[1] for w in told if "config.yaml: " in str(w.message)) == [
        "iterations was 4 in the last checkpoint and is 5 now.",
        "keep_checkpoints was 3 in the last checkpoint and is 2 now.",
    ]


def test_checkpoints_of_earlier_versions_load_with_a_warning(run: Path, whole: Path) -> None:
    as_without_manifest(run)
    (run / "checkpoints/iteration-000004/state.json").write_text("[]")
    with pytest.warns(UserWarning, match="without a manifest") as told:
        resume(run)
    sentences = [str(w.message) for w in told]
    assert "state.json: it must hold a JSON object" in sentences[0]
    assert "iteration-000003 was written by an earlier version of Podium, without a manifest" in sentences[1]
    assert same(run, whole)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda c: (c / "state.json").write_text(
            '{"iteration": "4", "learners": {}, "memories": {}, "progress": {"dict": []}}'
        ),
        lambda c: (c / "state.json").write_text('{"iteration": 4, "learners": {}}'),
        lambda c: (c / "state.json").write_text('{"iteration": ' + "9" * 5000 + "}"),
        lambda c: (c / "state.json").write_bytes(b"\xff"),
        lambda c: (c / "policy.optimizer.safetensors").write_bytes((c / "policy/model.safetensors").read_bytes()),
        lambda c: (c / "memories.safetensors").unlink(),
        lambda c: shutil.rmtree(c / "policy"),
    ],
)
def test_what_does_not_fit_in_one_without_a_manifest_is_damage(run: Path, whole: Path, spoil: object) -> None:
    as_without_manifest(run)
    spoil(run / "checkpoints/iteration-000004")  # type: ignore[operator]
    with pytest.warns(UserWarning, match=r"Resuming from iteration 3: 1 iteration is trained again"):
        resume(run)
    assert same(run, whole)


def test_a_run_that_diverges_saves_nothing_and_names_the_iteration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole_save = Run.save

    def diverged(run: Run, directory: Path) -> None:
        if run.iteration == 2:
            with torch.no_grad():
                next(run.policy.parameters()).view(-1)[0] = math.inf
        whole_save(run, directory)

    monkeypatch.setattr(Run, "save", diverged)
    with pytest.raises(
        PodiumError, match=r"^Training has diverged by iteration 2: .* infinite entries\. Nothing was saved"
    ):
        train(config(), out=tmp_path / "run")
    assert [c.name for c in RunDirectory(tmp_path / "run").checkpoints()] == ["iteration-000001"]
