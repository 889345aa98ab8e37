"""What people get wrong when they type `podium train`: one line that says what to do, and nothing is left behind."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from podium.cli import main
from podium.training.session import resume, train
from tests.policy import tiny
from tests.training.test_session import numbers, small

Capture = pytest.CaptureFixture[str]


def refused(capsys: Capture, out: Path, *words: str) -> str:
    """The one line with which a command is refused; the run's directory does not come to be."""
    capsys.readouterr()
    code = main(["train", *words, "--out", str(out)])
    captured = capsys.readouterr()
    assert code == 2
    assert captured.err.startswith("Error: ")
    assert captured.err.count("\n") == 1
    assert not out.exists()
    return captured.err


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "run"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return tiny.directory(tmp_path / "model")


# -- models --------------------------------------------------------------------------------------------------------


def test_a_missing_model_directory(capsys: Capture, out: Path, tmp_path: Path) -> None:
    assert "There is no model directory" in refused(capsys, out, "--model", str(tmp_path / "no/such/model"))


def _truncated(model: Path) -> None:
    file = model / "model.safetensors"
    file.write_bytes(file.read_bytes()[:1000])


def _pickle(model: Path) -> None:
    (model / "model.safetensors").rename(model / "pytorch_model.bin")


def _no_config(model: Path) -> None:
    (model / "config.json").unlink()


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (_truncated, "model.safetensors is damaged"),
        (_pickle, "has its weights as a pickle (pytorch_model.bin)"),
        (_no_config, "is not a model: it has no config.json"),
    ],
)
def test_a_spoilt_model(capsys: Capture, out: Path, model: Path, spoil: Callable[[Path], None], words: str) -> None:
    spoil(model)
    assert words in refused(capsys, out, "--world", "echo", "--model", str(model))


def test_a_tokenizer_without_a_chat_template_is_said_and_used_as_it_is(capsys: Capture, out: Path, model: Path) -> None:
    (model / "chat_template.jinja").unlink()
    small_run = ["--iterations", "1", "--set", "tasks=2", "--set", "eval_tasks=2", "--set", "n=2"]
    assert main(["train", "grpo", "--world", "echo", "--model", str(model), "--out", str(out), *small_run]) == 0
    assert f"The tokenizer of {model} has no chat template: prompts are plain text" in capsys.readouterr().out


# -- data ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('{"question": "1 + 1", "answer": "2"}\n{"question": "2 + 2"}\n', "line 2: none of the fields answer"),
        ('{"question": "1 + 1", "answer": "2"}\n{"question":\n', "line 2: not JSON"),
        ("", "has no rows"),
    ],
)
def test_a_bad_file_of_questions(capsys: Capture, out: Path, tmp_path: Path, content: str, words: str) -> None:
    file = tmp_path / "data.jsonl"
    file.write_text(content)
    said = refused(capsys, out, "--world", f"jsonl:{file}")
    assert words in said
    assert str(file) in said


def test_a_prompt_longer_than_the_context_is_named(capsys: Capture, out: Path, tmp_path: Path) -> None:
    file = tmp_path / "data.jsonl"
    rows = [{"question": f"{i} plus 1", "answer": str(i + 1)} for i in range(30)]
    rows[17]["question"] = "17 plus 1 " * 2000
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    said = refused(capsys, out, "--world", f"jsonl:{file}")
    assert "The prompt of jsonl-data/" in said
    assert "leaves no room to answer in the context of podium/tiny" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--world", "smus"], "There is no world 'smus'. Did you mean 'sums'?"),
        (["--world", "sums", "--level", "9"], "sums has no level 9: its levels are 1, 2, 3, 4, 5."),
        (["grpp"], "There is no method 'grpp'. Did you mean 'grpo'"),
        (["grpo", "--set", "tsks=3"], "has no setting 'tsks'"),
        (["grpo", "--set", "tasks=0"], "Config.tasks = 0 is out of range"),
        (["grpo", "--with", "SamplerCorection"], "Did you mean 'SamplerCorrection'"),
        (["grpo", "--track", "wandbb"], "There is no tracker 'wandbb'. Did you mean 'wandb'?"),
        (["--config", "none.yaml"], "Cannot read 'none.yaml'"),
    ],
)
def test_a_misspelt_name(capsys: Capture, out: Path, words: list[str], said: str) -> None:
    assert said in refused(capsys, out, *words)


# -- places --------------------------------------------------------------------------------------------------------


def test_a_place_that_is_no_directory(capsys: Capture, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "could not be written: Not a directory" in refused(
        capsys, tmp_path / "file/run", "--world", "echo", "--iterations", "1"
    )


def test_a_place_without_permission(capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", refuses)  # the superuser may write everywhere
    said = refused(capsys, tmp_path / "run", "--world", "echo", "--iterations", "1")
    assert "run cannot be written (no permission). Choose another place with --out." in said


def test_a_resume_of_nothing(capsys: Capture, tmp_path: Path) -> None:
    assert main(["train", "--resume", str(tmp_path / "none")]) == 2
    assert "is not a run: it has no config.yaml" in capsys.readouterr().err
    assert main(["train", "--resume", str(tmp_path), "--set", "tasks=3"]) == 2
    assert "leave the other options away" in capsys.readouterr().err


def test_a_damaged_checkpoint_is_named_and_the_one_before_it_serves(capsys: Capture, tmp_path: Path) -> None:
    config = small(iterations=3, checkpoint_every=1, keep_checkpoints=3)
    train(config, out=tmp_path / "run")
    whole = numbers(tmp_path / "run")
    import shutil

    last = tmp_path / "run/checkpoints/iteration-000003"
    file = last / "policy.optimizer.safetensors"
    file.write_bytes(file.read_bytes()[:100])
    assert main(["train", "--resume", str(tmp_path / "run")]) == 2
    said = capsys.readouterr().err
    assert "iteration-000003 cannot be read" in said
    assert "Delete it to resume from the one before" in said
    shutil.rmtree(last)
    resume(tmp_path / "run")
    assert numbers(tmp_path / "run") == whole
