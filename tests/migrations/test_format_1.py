"""What version 1 of the format wrote is still read: YAML of every method, and runs that go on to the bit.

`yaml_1` and `runs_1` were written by the version before the stage `annotate` existed. The runs were interrupted after
iteration 2 of 4; `expected.json` and `expected.safetensors` say what that version made of iterations 3 and 4.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from podium import Method, PodiumError
from podium.core import migrations, serial
from podium.training.config import Config
from tests.migrations.resumed import check_goes_on

HERE = Path(__file__).parent
RUNS, YAML = HERE / "runs_1", HERE / "yaml_1"
BROKEN = "LearnToHint"  # whose default, hints in turn, failed as soon as a hint before the last one succeeded
BASES = {"Best", "Forked", "Places"}  # which no method could hold, and which are gone


def _texts(name: str) -> dict[str, Any]:
    texts: dict[str, Any] = json.loads(gzip.decompress((YAML / name).read_bytes()))
    return texts


@pytest.mark.parametrize("name", ["grpo", "archer", "spear", "seele", "gigpo"])
def test_a_recorded_run_goes_on_as_it_did(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.warns(UserWarning, match="without a manifest"):
        check_goes_on(RUNS / name, tmp_path)


def test_the_yaml_of_every_method_is_read_and_written_in_the_format_of_today() -> None:
    for name, text in _texts("methods.json.gz").items():
        method = Method.from_yaml(text)
        again = method.to_yaml()
        assert again.startswith(f"format: {migrations.FORMAT}\n"), name
        assert Method.from_yaml(again) == method, name


@pytest.mark.parametrize("name", ["config.yaml", "config_world.yaml"])
def test_the_configuration_of_a_run_is_read(name: str) -> None:
    config = Config.from_yaml((YAML / name).read_text("utf-8"))
    assert Config.from_yaml(config.to_yaml()) == config


def test_the_yaml_of_every_class_is_read() -> None:
    for name, text in _texts("values.json.gz").items():
        if text is not None and name not in {*BASES, BROKEN}:
            value = serial.decode(migrations.migrate(yaml.safe_load(text), 1))
            assert serial.decode(serial.encode(value)) == value, name


def test_a_setting_that_never_worked_is_refused_in_words() -> None:
    with pytest.raises(PodiumError, match="LearnToHint no longer has the setting 'search', which was 'in turn' here"):
        migrations.migrate(yaml.safe_load(_texts("values.json.gz")[BROKEN]), 1)


def test_parts_of_the_stage_annotate_leave_the_rewards() -> None:
    text = "{name: x, reward: [{GreedyBaseline: {}}, {TokenReward: {beta: 0.5}}], evaluate: [{Watch: {column: a.b}}]}"
    method = Method.from_yaml(text)
    assert [type(part).__name__ for part in method.annotate] == ["GreedyBaseline"]
    assert [type(part).__name__ for part in method.reward] == ["TokenReward"]
    assert [type(part).__name__ for part in method.metric] == ["ReportMean"]


def test_a_newer_format_is_refused_in_words() -> None:
    with pytest.raises(PodiumError, match=r"newer version of Podium \(format 99"):
        Method.from_yaml("{format: 99, name: x}")
