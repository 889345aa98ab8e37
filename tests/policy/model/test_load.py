"""Loading models, and what is refused with one clear message."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from podium.core import PodiumError
from podium.policy import load
from tests.policy import tiny


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return tiny.directory(tmp_path / "model")


def test_a_directory_is_loaded_as_it_is(model: Path) -> None:
    policy = load(model)
    own = tiny.policy()
    assert policy.notes == ()
    assert policy.end_ids == (1,)
    assert policy.context_length == 256
    torch.testing.assert_close(policy.score([(5, 6)], [(7, 8)])[0], own.score([(5, 6)], [(7, 8)])[0])
    assert load(model, dtype="bfloat16").dtype == torch.bfloat16


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(PodiumError, match="There is no model directory"):
        load(tmp_path / "nowhere" / "at" / "all")
    (tmp_path / "model.txt").write_text("")
    with pytest.raises(PodiumError, match="is a file"):
        load(tmp_path / "model.txt")
    with pytest.raises(PodiumError, match="There is no file"):
        load(tmp_path / "model.gguf")


@pytest.mark.parametrize("package", ["gguf", "accelerate"])
def test_a_gguf_file_without_its_packages_names_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    (tmp_path / "model.gguf").write_bytes(b"GGUF")
    module = sys.modules["podium.policy.model.load"]
    monkeypatch.setattr(module, "find_spec", lambda name: None if name == package else object())
    with pytest.raises(PodiumError) as error:
        load(tmp_path / "model.gguf")
    assert str(error.value) == f"A GGUF file needs the package {package}: pip install 'podium-rl[gguf]'."


def test_a_damaged_gguf_file_is_one_line_without_a_bar(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("gguf", reason="needs the extra `gguf`")
    pytest.importorskip("accelerate", reason="needs the extra `gguf`")
    (tmp_path / "model.gguf").write_bytes(b"GGUF")
    with pytest.raises(PodiumError, match=r"model.gguf cannot be loaded: [^\n]+$"):
        load(tmp_path / "model.gguf")
    assert capfd.readouterr().err == ""


def test_an_unknown_embedded_model_is_refused() -> None:
    with pytest.raises(PodiumError, match="no embedded model 'podium/huge'"):
        load("podium/huge")


def test_a_directory_without_config_is_no_model(model: Path) -> None:
    (model / "config.json").unlink()
    with pytest.raises(PodiumError, match=r"no config.json"):
        load(model)


def test_a_broken_config_is_named(model: Path) -> None:
    (model / "config.json").write_text("{")
    with pytest.raises(PodiumError, match=r"config.json: not JSON"):
        load(model)
    (model / "config.json").write_text(json.dumps({"model_type": "unheard-of"}))
    with pytest.raises(PodiumError, match=r"cannot be loaded: .*unheard-of"):
        load(model)


def test_a_pickle_is_never_opened(model: Path) -> None:
    (model / "model.safetensors").unlink()
    with pytest.raises(PodiumError, match="has no weights"):
        load(model)
    (model / "pytorch_model.bin").write_bytes(b"cos\nsystem\n(S'false'\ntR.")
    with pytest.raises(PodiumError, match=r"pickle \(pytorch_model.bin\).*safetensors only"):
        load(model)


@pytest.mark.parametrize("keep", [0, 7, 1000, -1000])
def test_damaged_weights_are_named(model: Path, keep: int) -> None:
    file = model / "model.safetensors"
    file.write_bytes(file.read_bytes()[:keep])
    with pytest.raises(PodiumError, match=r"model.safetensors is damaged"):
        load(model)


def test_missing_weights_are_not_made_up(model: Path) -> None:
    tensors = load_file(model / "model.safetensors")
    del tensors["model.layers.0.mlp.up_proj.weight"]
    save_file(tensors, model / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(PodiumError, match=r"incomplete: 1 weights .*up_proj"):
        load(model)


def test_a_missing_tokenizer_is_said(model: Path) -> None:
    for file in model.glob("*token*"):
        file.unlink()
    with pytest.raises(PodiumError, match="tokenizer"):
        load(model)


def test_a_tokenizer_of_another_model_is_refused(model: Path) -> None:
    tiny.model(vocab_size=100).save_pretrained(model)
    with pytest.raises(PodiumError, match=r"\d+ tokens, its model only 100"):
        load(model)


def test_a_model_without_an_end_token_is_refused(model: Path) -> None:
    for name in ("config.json", "generation_config.json", "tokenizer_config.json"):
        data = json.loads((model / name).read_text())
        data["eos_token_id"] = data["eos_token"] = None
        (model / name).write_text(json.dumps(data))
    (model / "chat_template.jinja").write_text("{% for m in messages %}{{ m['content'] }}\n{% endfor %}")
    with pytest.raises(PodiumError, match=r"no end-of-turn token.*generation_config.json"):
        load(model)


def test_unknown_dtypes_and_devices_are_refused(model: Path) -> None:
    with pytest.raises(PodiumError, match="'float32'"):
        load(model, dtype="float23")
    with pytest.raises(PodiumError, match="no device 'gpu'"):
        load(model, device="gpu")
    if not torch.cuda.is_available():
        with pytest.raises(PodiumError, match="device='cpu'"):
            load(model, device="cuda")
