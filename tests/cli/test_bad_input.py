"""What people get wrong when they type `podium train`: one line that says what to do, and nothing is left behind."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from podium.cli import main
from podium.core.errors import PodiumError
from podium.sessions import train as session
from podium.sessions.train import train
from podium.training.config import Config
from podium.training.run import Run
from tests.policy import tiny
from tests.sessions.test_train import numbers, small
from tests.training.test_memory_plan import Card, starve

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
        ('{"question": "1 + 1", "answer": null}\n', "line 1: the field 'answer' is null"),
        ("[1, 2]\n", "line 1: a row must be a JSON object"),
        (
            '{"question": "1+1", "answer": "2"}\n',
            "leaves no held-out tasks with held_out = 0.1: give the world test_file",
        ),
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
        (["GRPO"], "There is no method 'GRPO'. Did you mean 'grpo'"),
        (["grpo", "--set", "tsks=3"], "nor the run has a setting 'tsks'. Did you mean 'tasks'"),
        (["grpo", "--set", "lr=1e-4"], "write optimizer.lr."),
        (["grpo", "--set", "noise=0.1"], "write world.noise."),
        (["grpo", "--set", "optimizer.lrr=1"], "Optimizer has no setting 'lrr'. Did you mean 'lr'?"),
        (["grpo", "--set", "world.nose=1"], "has no setting 'nose'. Did you mean 'noise'?"),
        (["grpo", "--set", "method=rloo"], "name the method by itself"),
        (["grpo", "--set", "tasks=0"], "Config.tasks = 0 is out of range"),
        (["grpo", "--with", "SamplerCorection"], "Did you mean 'SamplerCorrection'"),
        (["grpo", "--track", "wandbb"], "There is no tracker 'wandbb'. Did you mean 'wandb'?"),
        (["--config", "none.yaml"], "Cannot read 'none.yaml'"),
        (["grpo", "--config", "none.yaml"], "--config contains a method"),
    ],
)
def test_a_misspelt_name(capsys: Capture, out: Path, words: list[str], said: str) -> None:
    assert said in refused(capsys, out, *words)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            "objective.PolicyGradient.clip=abc",
            "PolicyGradient.clip = 'abc' must be a TrustRegion (Bounds, SoftGate, DivergenceMask) or None.",
        ),
        ("kl=abc", "KL.coefficient = 'abc' must be a number."),
        ("n=2.5", "Sample.n = 2.5 must be a whole number."),
        ("seed=abc", "Config.seed = 'abc' must be a whole number."),
        ("max_tokens=0", "Config.max_tokens = 0 is out of range"),
        ("lora=0", "Config.lora = 0 is out of range"),
        ("checkpointing=abc", "Config.checkpointing = 'abc' must be true or false."),
        ("optimizer.betas=[0.9]", "Optimizer.betas = (0.9,) must be a list of 2 or None."),
        ("optimizer=3", "Config.optimizer = 3 must be an Optimizer."),
        ("dtype=float64", "Config.dtype = 'float64' is not one of 'float32', 'bfloat16'."),
    ],
)
def test_a_value_of_the_wrong_kind(capsys: Capture, out: Path, change: str, said: str) -> None:
    assert said in refused(capsys, out, "grpo", "--set", change)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("raise RuntimeError('boom')", "could not be loaded: RuntimeError: boom."),
        ("class Mine: pass", "Mine is neither a part nor a world"),
        ("class Other: pass", "has no part or world named 'Mine'"),
        ("class Mine(World): name = 'mine'", "The world Mine makes no tasks: define task(index, split)."),
        ("class Mine(World):\n def __init__(self, a): pass", "could not be made: TypeError"),
        ("class Mine(World):\n def task(self, i, split): return 'x'", "gives a str, not a Task."),
        (
            "class Mine(World):\n def task(self, i, split): return {}[i]",
            "could not make its train task 0: KeyError: 0.",
        ),
    ],
)
def test_a_broken_world_of_one_s_own(capsys: Capture, out: Path, tmp_path: Path, code: str, said: str) -> None:
    file = tmp_path / "mine.py"
    file.write_text(f"from podium.worlds import World\n{code}\n")
    assert said in refused(capsys, out, "--world", f"{file}:Mine")
    assert "name the class in it too" in refused(capsys, out, "--world", str(file))


@pytest.mark.parametrize("text", ["a: [", "- 1", "words"])
def test_a_config_that_is_none_is_named(capsys: Capture, out: Path, tmp_path: Path, text: str) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(text)
    assert refused(capsys, out, "--config", str(file)).startswith(f"Error: {file}: ")


def test_settings_of_world_and_optimiser_change_a_config_too(out: Path, tmp_path: Path) -> None:
    train(small(iterations=1), out=tmp_path / "first")
    words = ["--set", "world.noise=0.25", "--set", "optimizer.lr=0.125", "--set", "advantage.scale=none"]
    assert main(["train", "--config", str(tmp_path / "first/config.yaml"), *words, "--out", str(out), "--quiet"]) == 0
    config = Config.from_yaml((out / "config.yaml").read_text())
    assert config.world_settings is not None
    assert (config.world_settings["noise"], config.optimizer.lr) == (0.25, 0.125)
    assert config.method.set("advantage.scale", "none") == config.method


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
    assert "of the other options, only --iterations, --device, --grace, --track" in capsys.readouterr().err
    assert main(["train", "dapo", "--resume", str(tmp_path)]) == 2
    assert "of the other options, only --iterations, --device, --grace, --track" in capsys.readouterr().err


def test_a_resume_of_a_finished_run_says_so_and_changes_nothing(capsys: Capture, tmp_path: Path) -> None:
    train(small(iterations=1), out=tmp_path / "run")
    before = numbers(tmp_path / "run")
    assert main(["train", "--resume", str(tmp_path / "run")]) == 0
    assert "The run had already finished" in capsys.readouterr().out
    assert numbers(tmp_path / "run") == before


def test_an_out_that_holds_a_run_is_refused_before_anything_is_printed(capsys: Capture, out: Path) -> None:
    (out / "checkpoints" / "iteration-000001").mkdir(parents=True)
    assert main(["train", "--out", str(out)]) == 2
    captured = capsys.readouterr()
    assert "already holds a run" in captured.err
    assert captured.out == ""


def test_an_out_that_is_a_file(capsys: Capture, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    assert main(["train", "--world", "echo", "--iterations", "1", "--out", str(tmp_path / "file")]) == 2
    assert "file is a file, not a directory. Choose another place with --out." in capsys.readouterr().err
    assert (tmp_path / "file").read_text() == "mine"


# -- other commands ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("resume runs/x", "There is no command 'resume'. To continue a run: podium train --resume RUN"),
        ("grpo", "'grpo' is a method, not a command. To train with it: podium train grpo"),
        ("trian", "There is no command 'trian'. Did you mean 'train'?"),
        ("bench creidt", "There is no command 'creidt'. Did you mean 'credit'?"),
        ("methods shwo", "There is no command 'shwo'. Did you mean 'show'?"),
        ("worlds paly", "There is no command 'paly'. Did you mean 'play'?"),
        ("lab lite-pppo", "There is no lab 'lite-pppo'. Did you mean 'lite-ppo'"),
        ("compare grpo", "A comparison needs at least two methods."),
        ("compare grpo rloo --seeds 0", "seeds = 0: a comparison needs at least one."),
        ("compare grpo rloo --set advantage.scale=none", "a method that you changed comes as a YAML file."),
        ("compare grpo rloo --set seed=1", "A comparison sets 'seed' itself"),
        ("compare grpo gigpo --world sums", "gigpo cannot run on sums"),
        ("compare grpo gigpo --world sums", "Without a world of your choice it trains on keydoor (level="),
    ],
)
def test_other_commands_are_refused_in_one_line_before_anything_is_trained(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(line.split()) == 2
    captured = capsys.readouterr()
    assert said in captured.err
    assert captured.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_group_of_commands_alone_shows_its_help(capsys: Capture) -> None:
    assert main(["bench"]) == 0
    assert "credit" in capsys.readouterr().out


# -- from Python ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"tsks": 3}, "Neither the run nor the world 'sums' has a setting 'tsks'. Did you mean 'tasks'"),
        ({"n": 4}, "A setting of the method is given with it: podium.methods.get('grpo', n=…)."),
        ({"tasks": "many"}, "Config.tasks = 'many' must be a number."),
        ({"lr": "fast"}, "Optimizer.lr = 'fast' must be a number."),
        ({"world": 3}, "Config.world = 3 must be text or a World"),
        ({"world": "smus"}, "There is no world 'smus'. Did you mean 'sums'?"),
        ({"world": "sums", "level": 9}, "sums has no level 9"),
        ({"model": "no/such/model"}, "There is no model directory no/such/model."),
    ],
)
def test_the_same_mistakes_in_python(out: Path, settings: dict[str, object], said: str) -> None:
    with pytest.raises(PodiumError, match=re.escape(said)):
        train("grpo", out=out, **settings)  # type: ignore[arg-type]
    assert not out.exists()


def test_a_damaged_checkpoint_is_named_and_the_one_before_it_serves(capsys: Capture, tmp_path: Path) -> None:
    config = small(iterations=3, checkpoint_every=1, keep_checkpoints=3)
    train(config, out=tmp_path / "run")
    whole = numbers(tmp_path / "run")
    last = tmp_path / "run/checkpoints/iteration-000003"
    file = last / "policy.optimizer.safetensors"
    file.write_bytes(file.read_bytes()[:100])
    assert main(["eval", str(tmp_path / "run"), "--k", "1", "--tasks", "2"]) == 0  # it reads the policy alone
    assert capsys.readouterr().err == ""
    assert main(["train", "--resume", str(tmp_path / "run")]) == 0
    captured = capsys.readouterr()
    assert captured.err == (
        "Checkpoint iteration-000003 is damaged: policy.optimizer.safetensors has 100 bytes, 7,489,232 by its "
        "manifest. Resuming from iteration 2: 1 iteration is trained again. "
        "What is damaged was renamed to iteration-000003.damaged.\n"
    )
    assert "already finished" not in captured.out
    assert numbers(tmp_path / "run") == whole
    assert (tmp_path / "run/checkpoints/iteration-000003.damaged/policy.optimizer.safetensors").stat().st_size == 100


# -- devices -------------------------------------------------------------------------------------------------------

SMALL = ["--iterations", "1", "--set", "tasks=2", "--set", "eval_tasks=2", "--set", "n=2", "--set", "max_tokens=8"]


@pytest.mark.parametrize("name", ["gpu", "mps", "meta", "cuda:x"])
def test_a_device_that_is_no_device(capsys: Capture, out: Path, name: str) -> None:
    assert "use cpu, cuda or cuda:N." in refused(capsys, out, "--device", name)


@pytest.mark.parametrize("name", ["cuda", "cuda:3"])
def test_a_machine_without_a_gpu(capsys: Capture, out: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert refused(capsys, out, "--device", name).endswith("use device='cpu'.\n")


@pytest.mark.parametrize(
    ("card", "typed", "said"),
    [
        ({"free": 40.0, "capability": 7}, "dtype=bfloat16", "does not compute in bfloat16: use dtype='float32'"),
        ({"free": 40.0, "capability": 5}, "dtype=float32", "Old Card is too old for this torch"),
        ({"free": 0.001}, "dtype=float32", "podium/tiny does not fit on cuda: its weights take"),
    ],
)
def test_a_gpu_that_will_not_do(
    capsys: Capture, out: Path, monkeypatch: pytest.MonkeyPatch, card: dict[str, float], typed: str, said: str
) -> None:
    Card(monkeypatch, **card)  # type: ignore[arg-type]
    assert said in refused(capsys, out, "--device", "cuda", "--set", typed)


def test_a_model_that_is_slower_is_said_before_anything_is_computed(
    capsys: Capture, out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, real = tiny.directory(tmp_path / "gpt2", "gpt2"), session._evaluation

    def evaluated(run: Run, *rest: Any) -> dict[str, Any]:
        print("evaluated")
        return real(run, *rest)

    monkeypatch.setattr(session, "_evaluation", evaluated)
    assert main(["train", "--world", "echo", "--model", str(model), "--out", str(out), *SMALL]) == 0
    said = capsys.readouterr().out.splitlines()
    (note,) = [number for number, line in enumerate(said) if "which is slower" in line]
    assert said[note] == f"{model} goes through its own forward pass, which is slower: its architecture is gpt2."
    assert note < said.index("evaluated")
    assert main(["eval", str(model), "--world", "echo", "--k", "1", "--tasks", "1"]) == 0
    assert capsys.readouterr().err.splitlines() == [said[note]]


def test_a_pass_that_is_split_is_one_line(capsys: Capture, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    starve(monkeypatch, 1)
    assert main(["train", "--world", "sums", "--level", "1", "--out", str(out), *SMALL]) == 0
    told = capsys.readouterr().err
    assert told.startswith("A pass did not fit in the GPU's memory. Training goes on, more slowly:")
    assert told.count("\n") == 1
