"""A model directory from elsewhere: nothing in it is executed, and what cannot be read is refused in one sentence."""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

import podium
from podium.core.errors import PodiumError
from podium.policy import load

TINY = Path(podium.__file__).parent / "models/tiny"
CODE = """
from pathlib import Path
(Path(__file__).parent / "executed").touch()
(Path({folder!r}) / "executed").touch()
class Config: model_type = "evil"
class Model: pass
class Tokenizer: pass
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A sound model with Python files beside its weights, which can even be imported."""
    model = tmp_path / "model"
    shutil.copytree(TINY, model)
    (model / "evil.py").write_text(CODE.format(folder=str(model)))
    monkeypatch.syspath_prepend(str(model))
    return model


def change(file: Path, settings: dict[str, Any]) -> None:
    data = json.loads(file.read_text()) if file.exists() else {}
    file.write_text(json.dumps({**data, **settings}))


MAPPED = {"AutoConfig": "evil.Config", "AutoModelForCausalLM": "evil.Model"}


@pytest.mark.parametrize(
    ("file", "settings"),
    [
        ("config.json", {"auto_map": MAPPED, "trust_remote_code": True}),
        ("config.json", {"auto_map": MAPPED, "model_type": "evil"}),
        ("tokenizer_config.json", {"auto_map": {"AutoTokenizer": ["evil.Tokenizer", "evil.Tokenizer"]}}),
        ("tokenizer_config.json", {"tokenizer_class": "evil.Tokenizer"}),
        ("generation_config.json", {"custom_generate": "evil", "trust_remote_code": True}),
    ],
)
def test_code_beside_the_weights_is_never_executed(folder: Path, file: str, settings: dict[str, Any]) -> None:
    change(folder / file, settings)
    with contextlib.suppress(PodiumError):  # refused is as good
        load(folder).encode([{"role": "user", "content": "hello"}])
    assert not (folder / "executed").exists()
    assert "evil" not in sys.modules


@pytest.mark.parametrize(
    "template",
    [
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ cycler.__init__.__globals__.os.system('true') }}",
        "{{ '{0.__class__.__init__.__globals__}'.format(messages) }}",
        "{{ messages.clear() }}",
        "{% include '/etc/passwd' %}",
        "{% import 'os' as os %}{{ os }}",
    ],
)
def test_a_chat_template_reaches_nothing_outside_itself(folder: Path, template: str) -> None:
    change(folder / "tokenizer_config.json", {"chat_template": template})
    with pytest.raises(PodiumError, match="The chat template of"):
        load(folder)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"a":' * 100_000, "nested too deep"),
        (f'{{"a": {"9" * 5000}}}', "not JSON"),
        ("[]", "it must hold a JSON object"),
        ('{"a": NaN', "not JSON"),
    ],
)
def test_a_configuration_that_cannot_be_read_is_refused(folder: Path, content: str, message: str) -> None:
    (folder / "config.json").write_text(content)
    with pytest.raises(PodiumError, match=message):
        load(folder)


def test_a_model_of_more_layers_than_tensors_is_not_built(folder: Path) -> None:
    change(folder / "config.json", {"num_hidden_layers": 10**7})
    with pytest.raises(PodiumError, match="speaks of 10000000 layers, but the files hold"):
        load(folder)


def test_adapters_that_name_another_model_are_not_followed(folder: Path) -> None:
    names = {"base_model_class": "Model", "parent_library": "evil"}
    change(folder / "adapter_config.json", {"peft_type": "LORA", "base_model_name_or_path": "x", "auto_mapping": names})
    with pytest.raises(PodiumError, match=r"adapter_config\.json.* merge_and_unload"):
        load(folder)


def test_pickles_are_refused(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(PodiumError, match="pickle"):
        load(folder)
